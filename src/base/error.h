#pragma once
// Errors. Two kinds, for two situations:
//  - set-up (files, flags, devices, memory plan): exceptions of class Error, whose text names the thing at fault, what was seen and
//    what was wanted;
//  - requests, sessions, transfers: values (Result<T>), never an exception across a thread.
// Broken invariants are neither: see check.h.

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace qwell {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws an Error with a formatted text.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

enum class FailureCode {
  kInvalidArgument,  // the caller's input is wrong; `param` names the field
  kNotFound,         // no such model, request, file
  kTooLarge,         // exceeds a limit that no waiting can change
  kOverloaded,       // a bounded queue or pool is full; try again later
  kUnavailable,      // a peer or a worker is gone or not ready
  kDeadline,         // a wait ended without its event
  kCancelled,        // the caller gave up
  kInternal,         // a fault of this program
};

const char* to_string(FailureCode code);

// An outcome that is not the wanted one. `message` is a full sentence for the person who can do something about it.
struct Failure {
  FailureCode code = FailureCode::kInternal;
  std::string message;
  std::string param;  // the field at fault, or empty
};

template <class... Args>
Failure failure(FailureCode code, fmt::format_string<Args...> format, Args&&... args) {
  return Failure{code, fmt::format(format, std::forward<Args>(args)...), {}};
}

// Either a value or a Failure. Asking for the one that is not there throws std::bad_variant_access.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Failure failure) : state_(std::in_place_index<1>, std::move(failure)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Failure& failure() const { return std::get<1>(state_); }

 private:
  std::variant<T, Failure> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Failure failure) : failed_(true), failure_(std::move(failure)) {}

  bool ok() const { return !failed_; }
  explicit operator bool() const { return ok(); }
  const Failure& failure() const { return failure_; }

 private:
  bool failed_ = false;
  Failure failure_;
};

}  // namespace qwell
