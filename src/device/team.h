#pragma once
// The threads of one CPU rank. The rank's own thread is worker 0; run() hands the others the same function and returns when all are done.

#include <functional>
#include <memory>

namespace qwell {

class Team {
 public:
  // `threads` >= 1, the caller's included. `spin_us`: how long an idle worker spins before it sleeps; 0 where there are more ranks than
  // cores.
  explicit Team(int threads, int spin_us = 50);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const;
  // Calls work(worker) on every worker, 0 on the calling thread; returns when all have returned. One caller at a time. `work` must not
  // throw. What happened before run() is visible to the workers, and what they did is visible after it.
  void run(const std::function<void(int worker)>& work);
  // Calls body(i) for every i in [0, count), each once, on whichever worker is free. Small counts run on the caller alone.
  void for_each(int count, const std::function<void(int i)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace qwell
