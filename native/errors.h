// What the core throws about data. The bindings turn these into the classes of headrace.errors.
#pragma once

#include <stdexcept>

namespace headrace {

// Malformed data: a broken index, a vocabulary with a word twice, a record that is not there.
class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A file is no longer what it was when it was opened.
class DataChangedError : public DataError {
 public:
  using DataError::DataError;
};

}  // namespace headrace
