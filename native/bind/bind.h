// Shared by the files of this folder: what binds a noun of the core to Python.
#pragma once

#include <nanobind/nanobind.h>

void bind_bucket(nanobind::module_& m);
void bind_cbf(nanobind::module_& m);
void bind_cntk_order(nanobind::module_& m);
void bind_ctf_index(nanobind::module_& m);
void bind_ctf_writer(nanobind::module_& m);
void bind_ctf_reader(nanobind::module_& m);
void bind_errors(nanobind::module_& m);
void bind_example(nanobind::module_& m);
void bind_pack(nanobind::module_& m);
void bind_permutation(nanobind::module_& m);
void bind_ragged(nanobind::module_& m);
void bind_resize(nanobind::module_& m);
void bind_snapshot(nanobind::module_& m);
void bind_text(nanobind::module_& m);
void bind_tfrecord(nanobind::module_& m);
void bind_version(nanobind::module_& m);
