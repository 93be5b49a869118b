/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Threads that complete what wring's own threads must not: callbacks of futures run Python, copy
 * tensors, and wait for further collectives. One thread suffices unless such a callback waits;
 * then the next operation finds nobody idle and starts another one.
 *
 * And a watchdog, which ends what nobody waits for once its timeout has passed.
 */
#ifndef WRING_TORCH_COMPLETER_HPP
#define WRING_TORCH_COMPLETER_HPP

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include <unistd.h>

#include "session.hpp"

namespace wring_torch {

constexpr size_t COMPLETERS_MAX = 32;
constexpr Milliseconds WATCH_EVERY{50};

/** Lives as long as the process, as do its threads: nothing waits for them at exit. */
class Completer {
  public:
    /** That of this process: a child of fork() has none of its parent's threads. */
    static Completer &own()
    {
        static std::mutex mutex;
        static Completer *completer = nullptr;
        static pid_t of = 0;
        std::lock_guard<std::mutex> lock(mutex);
        if (of != getpid()) {
            completer = new Completer;
            of = getpid();
        }
        return *completer;
    }

    void push(std::function<void()> task)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        tasks_.push_back(std::move(task));
        unfinished_++;
        if (idle_ >= tasks_.size() || threads_ >= COMPLETERS_MAX) {
            wanted_.notify_one();
            return;
        }
        threads_++;
        std::thread([this] { run(); }).detach();
    }

    /** Wait until all is done that was pushed. @return false: the time is over */
    bool drain(Milliseconds patience)
    {
        std::unique_lock<std::mutex> lock(mutex_);
        return done_.wait_for(lock, patience, [this] { return unfinished_ == 0; });
    }

    /** @param look  called every WATCH_EVERY; false: never again */
    void watch(std::function<bool()> look)
    {
        std::lock_guard<std::mutex> lock(watch_mutex_);
        looks_.push_back(std::move(look));
        if (!watching_)
            std::thread([this] { run_watch(); }).detach();
        watching_ = true;
    }

  private:
    void run()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            idle_++;
            wanted_.wait(lock, [this] { return !tasks_.empty(); });
            idle_--;
            auto task = std::move(tasks_.front());
            tasks_.pop_front();
            lock.unlock();
            task();
            task = nullptr; /* it may hold the last reference to tensors */
            lock.lock();
            if (--unfinished_ == 0)
                done_.notify_all();
        }
    }

    void run_watch()
    {
        for (;;) {
            std::this_thread::sleep_for(WATCH_EVERY);
            std::deque<std::function<bool()>> looks, left;
            {
                std::lock_guard<std::mutex> lock(watch_mutex_);
                looks.swap(looks_);
            }
            for (auto &look : looks)
                if (look())
                    left.push_back(std::move(look));
            std::lock_guard<std::mutex> lock(watch_mutex_);
            for (auto &look : left)
                looks_.push_back(std::move(look));
            watching_ = !looks_.empty();
            if (!watching_)
                return;
        }
    }

    std::mutex mutex_, watch_mutex_;
    std::condition_variable wanted_, done_;
    std::deque<std::function<void()>> tasks_;
    std::deque<std::function<bool()>> looks_;
    size_t idle_ = 0, threads_ = 0, unfinished_ = 0;
    bool watching_ = false;
};

} // namespace wring_torch

#endif
