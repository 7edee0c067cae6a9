// Knows nested containers of Python again: whether anything in them has changed, without comparing what they hold.
//
// An immutable object that is still the same object hasn't changed. So it is enough to keep the pointers that each
// list, tuple and dict had, with a reference to what they point to, which keeps the address from being used anew, and
// to look whether they are the same; only memory that can be written to (arrays) is hashed.
#include <Python.h>
#include <nanobind/nanobind.h>

#include <cstring>
#include <unordered_set>
#include <vector>

#include "bind.h"
#include "hash.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

class Snapshot {
 public:
  Snapshot(PyTypeObject* array, PyTypeObject* number) : array_(array), number_(number) {}
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;
  Snapshot(Snapshot&& other) noexcept = default;
  ~Snapshot() {
    for (PyObject* object : held_) Py_DECREF(object);
  }

  // Takes it; false if there is something whose change couldn't be seen.
  bool take(PyObject* root) {
    std::unordered_set<PyObject*> seen;
    std::vector<PyObject*> left;
    if (!hold(root, seen, left)) return false;
    while (!left.empty()) {
      PyObject* object = left.back();
      left.pop_back();
      const std::size_t begin = held_.size();
      if (PyList_CheckExact(object)) {
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); ++i) {
          if (!hold(PyList_GET_ITEM(object, i), seen, left)) return false;
        }
      } else if (PyTuple_CheckExact(object)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
          if (!hold(PyTuple_GET_ITEM(object, i), seen, left)) return false;
        }
        continue;  // it will always hold the same
      } else {
        PyObject *key, *value;
        for (Py_ssize_t at = 0; PyDict_Next(object, &at, &key, &value);) {
          if (!hold(key, seen, left) || !hold(value, seen, left)) return false;
        }
      }
      containers_.push_back({object, begin, held_.size() - begin});
    }
    return true;
  }

  // Whether all is as it was.
  bool holds() const {
    for (const Container& container : containers_) {
      if (!is_same(container)) return false;
    }
    for (const Block& block : blocks_) {
      std::uint64_t now;
      if (!hash_of(block.object, now) || now != block.hash) return false;
    }
    return true;
  }

  std::size_t size() const { return held_.size(); }

 private:
  // What a list or dict had: pointers held_[begin … begin + count).
  struct Container {
    PyObject* object;
    std::size_t begin, count;
  };

  struct Block {
    PyObject* object;
    std::uint64_t hash;
  };

  bool hold(PyObject* object, std::unordered_set<PyObject*>& seen, std::vector<PyObject*>& left) {
    if (PyList_CheckExact(object) || PyTuple_CheckExact(object) || PyDict_CheckExact(object)) {
      if (seen.insert(object).second) left.push_back(object);
    } else if (Py_TYPE(object) == array_ || PyByteArray_CheckExact(object)) {
      if (seen.insert(object).second) {
        Block block{object, 0};
        if (!hash_of(object, block.hash)) return false;
        blocks_.push_back(block);
      }
    } else if (!is_immutable(object)) {
      return false;
    }
    Py_INCREF(object);
    held_.push_back(object);
    return true;
  }

  // Exactly of these types: classes derived from them may have attributes.
  bool is_immutable(PyObject* object) const {
    if (PyUnicode_CheckExact(object) || PyLong_CheckExact(object) || PyFloat_CheckExact(object) || object == Py_None ||
        PyBytes_CheckExact(object) || PyBool_Check(object) || PyComplex_CheckExact(object)) {
      return true;
    }
    PyTypeObject* type = Py_TYPE(object);
    return PyType_IsSubtype(type, number_) && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0;
  }

  bool is_same(const Container& container) const {
    PyObject* const* expected = held_.data() + container.begin;
    if (PyList_CheckExact(container.object)) {
      if (static_cast<std::size_t>(PyList_GET_SIZE(container.object)) != container.count) return false;
      PyObject* const* items = reinterpret_cast<PyListObject*>(container.object)->ob_item;
      return container.count == 0 || std::memcmp(items, expected, container.count * sizeof(PyObject*)) == 0;
    }
    if (static_cast<std::size_t>(PyDict_GET_SIZE(container.object)) * 2 != container.count) return false;
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(container.object, &at, &key, &value); expected += 2) {
      if (key != expected[0] || value != expected[1]) return false;
    }
    return true;
  }

  // Of an array's memory, type and shape; false if it refers to objects or isn't in one piece.
  static bool hash_of(PyObject* object, std::uint64_t& hash) {
    using headrace::hash_bytes;
    Py_buffer view;
    if (PyObject_GetBuffer(object, &view, PyBUF_FULL_RO) != 0) {
      PyErr_Clear();
      return false;
    }
    const char* format = view.format == nullptr ? "B" : view.format;
    const bool plain = PyBuffer_IsContiguous(&view, 'C') && std::strpbrk(format, "OP&X") == nullptr;
    if (plain) {
      const auto bytes = [](const void* p) { return static_cast<const std::uint8_t*>(p); };
      hash = hash_bytes(bytes(view.buf), static_cast<std::size_t>(view.len));
      hash = headrace::mix(hash ^ hash_bytes(bytes(format), std::strlen(format)),
                           headrace::hash_constants::kB ^ static_cast<std::uint64_t>(view.readonly));
      const std::size_t shape = view.shape == nullptr ? 0 : sizeof(Py_ssize_t) * static_cast<std::size_t>(view.ndim);
      hash = headrace::mix(hash, headrace::hash_constants::kC ^ hash_bytes(bytes(view.shape), shape));
    }
    PyBuffer_Release(&view);
    return plain;
  }

  PyTypeObject* array_;   // numpy.ndarray
  PyTypeObject* number_;  // numpy.number
  std::vector<PyObject*> held_;
  std::vector<Container> containers_;
  std::vector<Block> blocks_;
};

nb::object snapshot_of(nb::handle root, nb::handle array, nb::handle number) {
#ifdef Py_GIL_DISABLED
  return nb::none();  // another thread may change a container while it is looked through
#else
  auto snapshot =
      new Snapshot(reinterpret_cast<PyTypeObject*>(array.ptr()), reinterpret_cast<PyTypeObject*>(number.ptr()));
  nb::object owner = nb::cast(snapshot, nb::rv_policy::take_ownership);
  return snapshot->take(root.ptr()) ? owner : nb::none();
#endif
}

}  // namespace

void bind_snapshot(nb::module_& m) {
  nb::class_<Snapshot>(m, "Snapshot", "What nested lists, tuples and dicts held when it was taken.")
      .def("holds", &Snapshot::holds,
           "Whether all of them hold the very same objects still, and arrays the same bytes.")
      .def("__len__", &Snapshot::size);
  m.def("snapshot_of", &snapshot_of, "root"_a, "array"_a, "number"_a,
        nb::sig("def snapshot_of(root: object, array: type, number: type) -> Snapshot | None"),
        "Takes a snapshot of a container; None if something in it could change unseen.");
}
