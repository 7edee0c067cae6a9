#include <cerrno>
#include <exception>
#include <system_error>

#include "bind.h"
#include "errors.h"

namespace nb = nanobind;

namespace {

// The classes live in the package, so that one tree of exceptions is defined in one place.
void raise(const char* name, const std::exception& error) {
  try {
    const nb::object type = nb::module_::import_("headrace.errors").attr(name);
    PyErr_SetString(type.ptr(), error.what());
  } catch (nb::python_error& failed) {
    failed.restore();
  }
}

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const headrace::DataChangedError& error) {
    raise("DataChangedError", error);
  } catch (const headrace::DataError& error) {
    raise("DataError", error);
  } catch (const std::system_error& error) {
    if (error.code().category() != std::generic_category()) throw;
    // what() is "PATH: reason"; Python adds the reason itself, and chooses the class (FileNotFoundError, ...).
    std::string path = error.what();
    const std::string reason = ": " + error.code().message();
    if (path.ends_with(reason)) path.resize(path.size() - reason.size());
    errno = error.code().value();
    PyErr_SetFromErrnoWithFilename(PyExc_OSError, path.c_str());
  }
}

}  // namespace

void bind_errors(nb::module_&) { nb::register_exception_translator(translate); }
