// The extension module headrace._native: one bind_<noun> function per file of this folder.
#include "bind.h"

NB_MODULE(_native, m) {
#ifdef NDEBUG
  // What a program still holds when it ends, a loader in a global variable say, is not worth words to its user.
  nanobind::set_leak_warnings(false);
#endif
  m.doc() = "The native core of headrace. Private: use the functions of the package instead.";
  bind_bucket(m);
  bind_cbf(m);
  bind_cntk_order(m);
  bind_ctf_index(m);
  bind_ctf_reader(m);
  bind_ctf_writer(m);
  bind_errors(m);
  bind_example(m);
  bind_pack(m);
  bind_permutation(m);
  bind_ragged(m);
  bind_resize(m);
  bind_snapshot(m);
  bind_text(m);
  bind_tfrecord(m);
  bind_version(m);
}
