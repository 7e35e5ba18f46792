// Queues: order, waits, lifetimes, and what becomes of failures. Gates stand for slow devices.
// SPDX-License-Identifier: MIT

#include "tenon/device/queue.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <thread>

#include "tests/device/queue_support.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

using testing::add_one;
using testing::buffer_of;
using testing::fail_to_write;
using testing::Gate;
using testing::hold;
using testing::HostDevice;
using testing::no_words;
using testing::pass;
using testing::values_of;
using Values = std::vector<int32_t>;
using Mode = HostQueue::Mode;
constexpr auto kFailed = ErrorCode::kDeviceFailed;

class Queues : public ::testing::Test {
 protected:
  HostDevice device_;
  BufferPool pool_{device_.allocator(), "HOST:0"};
  HostQueue slow_{device_, Mode::kThread};
  HostQueue other_{device_, Mode::kThread};
  HostQueue here_{device_, Mode::kCaller};
};

// --- order and waits -----------------------------------------------------------------------------

TEST_F(Queues, JobsAreDoneInTheOrderOfSubmission) {
  std::vector<int> done;
  Event last;
  for (int i = 0; i < 600; ++i) {  // more than may be under way at once
    last = slow_.submit(
        {}, [&done, i] { done.push_back(i); }, no_words);
    EXPECT_EQ(last.value(), static_cast<uint64_t>(i) + 1);
  }
  last.wait();
  std::vector<int> expected(600);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(done, expected);
  EXPECT_TRUE(last.is_done());
  EXPECT_TRUE(slow_.last().is_done());
}

TEST_F(Queues, AnEventIsNotDoneBeforeItsJob) {
  Gate gate;
  const Event before = pass(slow_);
  const Event held = hold(slow_, gate);
  const Event after = pass(slow_);
  before.wait();
  EXPECT_FALSE(held.is_done());
  EXPECT_FALSE(after.is_done());
  gate.open();
  slow_.wait(held);
  EXPECT_TRUE(held.is_done());
  slow_.synchronize();
  EXPECT_TRUE(after.is_done());
}

TEST_F(Queues, AnIdleQueueRunsAJobOnItsCallersThread) {
  std::thread::id where;
  const auto note = [&where] { where = std::this_thread::get_id(); };
  const Event event = here_.submit({}, note, no_words);
  EXPECT_EQ(where, std::this_thread::get_id());
  EXPECT_TRUE(event.is_done());
  slow_.submit({}, note, no_words).wait();
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST_F(Queues, AJobThatHasToWaitDoesNotHoldItsCallerUp) {
  Gate gate;
  const Buffer x = buffer_of(pool_, {1, 2});
  const Buffer y = pool_.allocate(8);
  const Buffer z = pool_.allocate(8);
  hold(slow_, gate);
  add_one(slow_, y, x);
  const Event waits = add_one(here_, z, y);
  EXPECT_FALSE(waits.is_done());
  // What comes behind it has its turn after it, though it could run.
  bool was_done = false;
  const Event behind = here_.submit(
      {}, [&] { was_done = waits.is_done(); }, no_words);
  EXPECT_FALSE(behind.is_done());
  gate.open();
  EXPECT_EQ(values_of(z), (Values{3, 4}));
  behind.wait();
  EXPECT_TRUE(was_done);
  std::thread::id where;
  here_.submit(
      {}, [&where] { where = std::this_thread::get_id(); }, no_words);
  EXPECT_EQ(where, std::this_thread::get_id());  // idle again
}

TEST_F(Queues, WhatIsReadWasWrittenBeforeByAnotherQueue) {
  const Buffer x = buffer_of(pool_, {1, 2, 3});
  Values want{1, 2, 3};
  Buffer value = x;
  for (int round = 0; round < 200; ++round) {  // from queue to queue
    const Buffer next = pool_.allocate(12);
    add_one(round % 3 == 0   ? slow_
            : round % 3 == 1 ? other_
                             : static_cast<Queue&>(here_),
            next, value);
    value = next;
    for (int32_t& element : want)
      ++element;
  }
  EXPECT_EQ(values_of(value), want);
}

TEST_F(Queues, ALaterWriterWaitsForReadersOfOtherQueues) {
  Gate gate;
  const Buffer x = buffer_of(pool_, {1, 2});
  const Buffer y = pool_.allocate(8);
  hold(slow_, gate);
  add_one(slow_, y, x);  // reads x when the gate is open
  const Buffer nine = buffer_of(pool_, {9, 9});
  const Event rewritten = add_one(other_, x, nine);
  pass(other_);
  EXPECT_FALSE(rewritten.is_done());
  gate.open();
  EXPECT_EQ(values_of(y), (Values{2, 3}));
  EXPECT_EQ(values_of(x), (Values{10, 10}));
}

TEST_F(Queues, NamedEventsAreWaitedFor) {
  for (int round = 0; round < 5; ++round) {
    Gate gate;
    std::atomic<bool> is_open = false;
    const auto open = [&] {
      gate.wait();
      is_open = true;
    };
    std::atomic<bool> was_open = false;
    const auto look = [&] { was_open = is_open.load(); };
    const Event waits[] = {slow_.submit({}, open, no_words), Event()};
    const Event done = here_.submit({}, look, no_words, waits);
    for (int i = 0; i < 5000 && !done.is_done(); ++i)
      std::this_thread::yield();  // a queue that does not wait has its chance
    EXPECT_FALSE(done.is_done());
    gate.open();
    done.wait();
    EXPECT_TRUE(was_open);
  }
}

TEST_F(Queues, HostCopiesWaitForTheJobsInTheirWay) {
  Gate gate;
  const Buffer x = buffer_of(pool_, {1, 2});
  const Buffer y = pool_.allocate(8);
  hold(slow_, gate);
  add_one(slow_, y, x);
  std::thread opener([&] { gate.open(); });
  Values source{50, 60};
  x.copy_in(std::as_bytes(std::span(source)));  // after the job has read x
  source = {-1, -1};
  add_one(slow_, x, x);  // what the array held when copy_in returned
  EXPECT_EQ(values_of(y), (Values{2, 3}));
  EXPECT_EQ(values_of(x), (Values{51, 61}));
  opener.join();
}

// --- lifetimes -----------------------------------------------------------------------------------

TEST_F(Queues, AJobKeepsItsBuffersUntilItIsDone) {
  Gate gate;
  hold(slow_, gate);
  void* address = nullptr;
  const Buffer result = pool_.allocate(4000);
  {
    const Buffer x = buffer_of(pool_, Values(1000, 7));
    address = x.address();
    add_one(slow_, result, x);
  }
  // The host has let it go; memory of that size goes to somebody else.
  const int64_t used = pool_.used_bytes();
  const Buffer another = buffer_of(pool_, Values(1000, -1));
  EXPECT_NE(another.address(), address);
  gate.open();
  EXPECT_EQ(values_of(result), Values(1000, 8));
  EXPECT_EQ(pool_.used_bytes(), used);  // `another` for x
  EXPECT_EQ(pool_.allocate(4000).address(), address);
}

TEST_F(Queues, AJobKeepsWhatItsFunctionHolds) {
  Gate gate;
  hold(slow_, gate);
  std::atomic<bool> is_gone = false;
  std::shared_ptr<int> held(new int(5), [&](const int* value) {
    for (int i = 0; i < 1000; ++i)
      std::this_thread::yield();  // it takes its time to go
    delete value;
    is_gone = true;
  });
  int got = 0;
  auto read = [held = std::move(held), &got] { got = *held; };
  const Event event = slow_.submit({}, std::move(read), no_words);
  EXPECT_FALSE(is_gone);
  gate.open();
  event.wait();
  EXPECT_EQ(got, 5);
  EXPECT_TRUE(is_gone);
}

TEST_F(Queues, AQueueThatGoesDoesItsJobsFirst) {
  const Buffer x = buffer_of(pool_, {1});
  const Buffer y = pool_.allocate(4);
  Event event;
  Gate gate;
  {
    HostQueue queue(device_, Mode::kThread);
    hold(queue, gate);
    event = add_one(queue, y, x);
    gate.open();
  }
  EXPECT_TRUE(event.is_done());
  event.wait();
  EXPECT_EQ(values_of(y), (Values{2}));
}

TEST_F(Queues, SubmissionWaitsWhenTooMuchIsUnderWay) {
  Gate gate;
  hold(slow_, gate);
  std::atomic<int> submitted = 0;
  std::thread submitter([&] {
    for (int i = 0; i < 1000; ++i, ++submitted)
      pass(slow_);
  });
  while (submitted < 256)
    std::this_thread::yield();
  for (int i = 0; i < 1000; ++i)
    std::this_thread::yield();
  EXPECT_LE(submitted, 257);
  gate.open();
  submitter.join();
  slow_.synchronize();
  EXPECT_EQ(submitted, 1000);
}

// --- failures ------------------------------------------------------------------------------------

TEST_F(Queues, AFailurePoisonsWhatDependsOnItAndNothingElse) {
  for (Queue* const second : {static_cast<Queue*>(&slow_), static_cast<Queue*>(&other_)}) {
    const Buffer x = buffer_of(pool_, {0});
    const Buffer y = buffer_of(pool_, {0});
    const Buffer z = buffer_of(pool_, {0});
    const Buffer unrelated = pool_.allocate(4);
    EXPECT_NO_THROW(fail_to_write(slow_, x, "r_5"));
    EXPECT_NO_THROW(add_one(slow_, y, x));
    EXPECT_NO_THROW(add_one(*second, z, y));
    bool has_run = false;
    const BufferUse reads_z[] = {{&z, ArgumentAccess::kRead}};
    second
        ->submit(
            reads_z, [&] { has_run = true; }, no_words)
        .wait();
    EXPECT_FALSE(has_run);
    add_one(slow_, unrelated, buffer_of(pool_, {4}));
    EXPECT_EQ(values_of(unrelated), (Values{5}));
    for (int again = 0; again < 2; ++again) {
      EXPECT_ERROR(values_of(z), kFailed, "kernel 'r_5' was lost", "while running r_5");
      EXPECT_ERROR(x.wait(), kFailed, "r_5");
    }
    EXPECT_NO_THROW(slow_.synchronize());  // it was told
    // All of it is usable when it is written.
    add_one(slow_, x, unrelated);
    EXPECT_EQ(values_of(x), (Values{6}));
    const Values eight{8};
    y.copy_in(std::as_bytes(std::span(eight)));
    EXPECT_EQ(values_of(y), (Values{8}));
    z.fill(std::byte{1});
    EXPECT_EQ(values_of(z), (Values{0x01010101}));
  }
}

TEST_F(Queues, APartlyWrittenBufferStaysPoisoned) {
  const Buffer x = buffer_of(pool_, {3});
  fail_to_write(slow_, x, "f");
  const BufferUse uses[] = {{&x, ArgumentAccess::kReadWrite}};
  slow_.submit(
      uses, [] {}, no_words);
  EXPECT_ERROR(values_of(x), kFailed, "kernel 'f'");
}

TEST_F(Queues, TheFirstFailureThatNobodyHasGotIsThrownOnce) {
  const Buffer x = pool_.allocate(4);
  const Buffer y = pool_.allocate(4);
  fail_to_write(slow_, x, "first");
  fail_to_write(slow_, y, "second");
  EXPECT_ERROR(slow_.synchronize(), kFailed, "kernel 'first'");
  EXPECT_NO_THROW(slow_.synchronize());
  EXPECT_ERROR(values_of(y), kFailed, "kernel 'second'");  // reads get it all the same
  fail_to_write(slow_, x, "third");
  fail_to_write(slow_, y, "fourth");
  EXPECT_ERROR(values_of(x), kFailed, "third");
  EXPECT_ERROR(slow_.synchronize(), kFailed, "fourth");
  EXPECT_NO_THROW(other_.synchronize());
}

TEST_F(Queues, AWaitCoversTheJobsBeforeItsEvent) {
  const Buffer x = pool_.allocate(4);
  const Buffer y = pool_.allocate(4);
  fail_to_write(other_, y, "g").wait();
  const Event good = pass(slow_);
  const Event bad = fail_to_write(slow_, x, "f");
  const Event later = pass(slow_);
  bad.wait();
  EXPECT_NO_THROW(slow_.wait(good));
  EXPECT_NO_THROW(other_.wait(later));  // not a job of that queue
  EXPECT_ERROR(slow_.wait(later), kFailed, "kernel 'f'");
  EXPECT_NO_THROW(slow_.wait(later));
  EXPECT_ERROR(other_.synchronize(), kFailed, "kernel 'g'");
}

TEST_F(Queues, OnTheCallersThreadAFailureIsThrownAtOnce) {
  const Buffer x = buffer_of(pool_, {0});
  const Buffer y = buffer_of(pool_, {0});
  EXPECT_ERROR(fail_to_write(here_, x, "f"), kFailed, "kernel 'f' was lost");
  EXPECT_NO_THROW(here_.synchronize());
  EXPECT_ERROR(values_of(x), kFailed, "kernel 'f'");
  EXPECT_NO_THROW(add_one(here_, y, x));
  EXPECT_ERROR(values_of(y), kFailed, "kernel 'f'");
  add_one(slow_, x, buffer_of(pool_, {1}));
  EXPECT_EQ(values_of(x), (Values{2}));
}

TEST_F(Queues, ADriversLateFailureIsThatOfItsJob) {
  const Buffer x = buffer_of(pool_, {1});
  const Buffer y = pool_.allocate(4);
  const Buffer z = pool_.allocate(4);
  for (Queue* const queue : {static_cast<Queue*>(&slow_), static_cast<Queue*>(&here_)}) {
    const BufferUse uses[] = {{&y, ArgumentAccess::kWrite}};
    const auto submit = [&] {
      queue->submit(
          uses, [&] { device_.late_failure = "lost"; }, [] { return "running late"; });
      queue->synchronize();
    };
    EXPECT_ERROR(submit(), kFailed, "lost");
    EXPECT_ERROR(y.wait(), kFailed, "lost");
    add_one(*queue, z, x);
    EXPECT_EQ(values_of(z), (Values{2}));
  }
}

// The driver's synchronize() gives a failure to whoever asks first.
TEST_F(Queues, ALateFailureIsNotAnotherThreadsJob) {
  constexpr int kRounds = 10'000;
  int told = 0;
  std::thread failing([&] {
    const Buffer y = pool_.allocate(4);
    const BufferUse uses[] = {{&y, ArgumentAccess::kWrite}};
    for (int round = 0; round < kRounds; ++round) {
      try {
        here_.submit(
            uses,
            [&] {
              device_.late_failure = "lost";
              std::this_thread::yield();
            },
            [] { return "running late"; });
      } catch (const Error&) {
        ++told;
      }
    }
  });
  const Buffer x = buffer_of(pool_, {1});
  const Buffer z = pool_.allocate(4);
  for (int round = 0; round < kRounds; ++round)
    EXPECT_NO_THROW(add_one(here_, z, x));
  failing.join();
  EXPECT_EQ(told, kRounds);
  EXPECT_EQ(values_of(z), (Values{2}));
}

TEST_F(Queues, WhatIsNoErrorOfOursBecomesOne) {
  const Buffer x = pool_.allocate(4);
  const BufferUse uses[] = {{&x, ArgumentAccess::kWrite}};
  slow_.submit(
      uses, [] { throw std::out_of_range("outside"); }, no_words);
  EXPECT_ERROR(values_of(x), ErrorCode::kInternal, "outside");
  slow_.submit(
      uses, [] { throw std::bad_alloc(); }, no_words);
  EXPECT_ERROR(values_of(x), ErrorCode::kOutOfMemory, "memory");
  slow_.submit(
      uses, [] { throw 7; }, no_words);
  EXPECT_ERROR(values_of(x), ErrorCode::kInternal, "something was thrown");
}

// --- threads and processes -----------------------------------------------------------------------

TEST_F(Queues, EightThreadsSubmitAndRead) {
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  const Buffer shared = buffer_of(pool_, {1, 1});
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      for (int round = 0; round < 50; ++round) {
        Queue& first = (thread + round) % 2 == 0 ? static_cast<Queue&>(slow_) : here_;
        Queue& second = round % 3 == 0 ? other_ : first;
        const Buffer x = buffer_of(pool_, {thread, round});
        const Buffer y = pool_.allocate(8);
        const Buffer z = pool_.allocate(8);
        const Buffer of_shared = pool_.allocate(8);
        add_one(first, y, x);
        add_one(second, z, y);
        add_one(second, of_shared, shared);
        wrong += values_of(z) != Values{thread + 2, round + 2};
        wrong += values_of(of_shared) != Values{2, 2};
        if (round % 10 == 0) {
          const Buffer poisoned = pool_.allocate(4);
          fail_to_write(slow_, poisoned, std::to_string(thread));
          wrong += !testing::throws_error([&] { poisoned.wait(); }, kFailed,
                                          {"kernel '" + std::to_string(thread) + "'"});
        }
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Queues, AForkedChildGetsAnErrorAndNoHang) {
  Gate gate;
  const Buffer x = buffer_of(pool_, {1});
  auto y = std::make_unique<Buffer>(pool_.allocate(4));
  auto mine = std::make_unique<HostQueue>(device_, Mode::kThread);
  hold(*mine, gate);
  add_one(*mine, *y, x);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);
    int status = 0;
    const auto expect = [&](int bit, auto&& body) {
      if (!testing::throws_error(body, kFailed, {"forked"})) status |= bit;
    };
    expect(1, [&] { values_of(*y); });
    expect(2, [&] { add_one(*mine, *y, x); });
    expect(4, [&] { mine->synchronize(); });
    expect(8, [&] { y->fill(std::byte{0}); });
    y.reset();
    mine.reset();
    _exit(status);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  gate.open();
  EXPECT_EQ(values_of(*y), (Values{2}));
}

}  // namespace
}  // namespace tenon
