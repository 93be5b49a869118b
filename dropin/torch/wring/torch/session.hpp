/* SPDX-License-Identifier: Apache-2.0 */
/** A wring session as the groups of one process share it, and what a group is. */
#ifndef WRING_TORCH_SESSION_HPP
#define WRING_TORCH_SESSION_HPP

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <wring/wring.h>

namespace wring_torch {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

/** Waits of threads come back so often, to see deadlines and whether the session is closed. */
constexpr uint64_t SLICE_NS = 100'000'000;

class Work;

[[noreturn]] inline void fail(const std::string &text)
{
    C10_THROW_ERROR(DistBackendError, "wring: " + text);
}

/**
 * An open session. The last group that lets go of it closes it; close() does so at once.
 * Threads: safe.
 */
class Session {
  public:
    explicit Session(uintptr_t handle) : handle_(reinterpret_cast<wring_session *>(handle)) {}
    ~Session() { close(); }
    Session(const Session &) = delete;
    Session &operator=(const Session &) = delete;

    /** Another one after replace(). */
    wring_session *handle() const { return handle_.load(); }
    bool closing() const { return closing_.load(); }
    bool closed() const { return closed_.load(); }

    /**
     * No call may begin once the session is closed, so those that are about to are counted. Threads
     * that wait come back by themselves; a call that does not is ended by an abort.
     */
    void close()
    {
        if (closing_.exchange(true))
            return;
        closes(reinterpret_cast<uintptr_t>(handle()));
        auto patience = Clock::now() + 10 * std::chrono::nanoseconds(SLICE_NS);
        while (inside_.load() > 0) {
            if (Clock::now() > patience)
                wring_session_abort(handle());
            std::this_thread::sleep_for(Milliseconds(1));
        }
        wring_session_close(handle());
        closed_ = true;
        kept_.clear();
    }

    using Change = wring_status (*)(wring_session *, uint64_t, wring_session **);

    /**
     * wring_session_shrink() or _grow(): if that gives another session, this object is that one from
     * then on, and all its groups have ended. Memory of wring_buffer_alloc() goes along.
     * @param change  which of them. Errors: those of it, and WRING_ERR_BUSY, where operations are
     *                under way that do not end
     */
    wring_status replace(Change change, uint64_t timeout_ns)
    {
        if (closing_.exchange(true))
            return WRING_ERR_CLOSED;
        replacing_ = true;
        wring_session *before = handle(), *next = before;
        wring_status status = await_idle() ? change(before, timeout_ns, &next) : WRING_ERR_BUSY;
        if (status == WRING_OK && next != before) {
            std::lock_guard<std::mutex> lock(mutex_);
            for (auto *shut : shuts_)
                groups_ -= !shut->exchange(true);
            handle_ = next;
            kept_.clear();
        }
        replacing_ = closing_ = false;
        return status;
    }

    /** Works that are in some group's list. */
    void count_work(int more) { works_ += more; }

    /** A group that lives, and where it notes that it has ended. */
    void list(std::atomic<bool> *shut)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        shuts_.push_back(shut);
    }
    void unlist(std::atomic<bool> *shut)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        shuts_.erase(std::remove(shuts_.begin(), shuts_.end(), shut), shuts_.end());
    }

    /** Groups that are made and shut down. */
    void join() { groups_++; }
    void leave(bool politely)
    {
        if (--groups_ > 0)
            return;
        if (politely && !closing() && failure().empty())
            farewell(reinterpret_cast<uintptr_t>(handle()));
        close();
    }

    /** Waits a while until the other ranks leave, too: called before the last group's end. Else
     *  what was sent last might find its receiver without a session. */
    static inline std::function<void(uintptr_t)> farewell = [](uintptr_t) {};

    /** Called before the session is closed, so that nobody uses it afterwards. */
    static inline std::function<void(uintptr_t)> closes = [](uintptr_t) {};

    /** Memory that peers may still write to stays until the session is closed. */
    void keep(std::vector<at::Tensor> tensors)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        for (auto &tensor : tensors)
            kept_.push_back(std::move(tensor));
    }

    /** Why the session failed: "" while it works, and while another one takes its place. */
    std::string failure() const
    {
        wring_error_detail detail = WRING_ERROR_DETAIL_INIT;
        inside_++;
        bool failed = !closed() && !replacing_ &&
                      wring_session_error(handle(), &detail) != WRING_OK;
        inside_--;
        return failed ? detail.text : "";
    }

  private:
    friend class Inside;

    /** No call begins meanwhile. @return false: some do not end */
    bool await_idle() const
    {
        auto end = Clock::now() + 50 * std::chrono::nanoseconds(SLICE_NS);
        while (inside_.load() > 0 || works_.load() > 0) {
            if (Clock::now() > end)
                return false;
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
        return true;
    }

    std::atomic<wring_session *> handle_;
    mutable std::atomic<int> inside_{0};
    std::atomic<int> groups_{0}, works_{0};
    std::atomic<bool> closing_{false}, closed_{false}, replacing_{false};
    std::mutex mutex_;
    std::vector<std::atomic<bool> *> shuts_;
    std::vector<at::Tensor> kept_;
};

/** A call into the session is under way, if `may`: else the session is closed or being closed. */
class Inside {
  public:
    explicit Inside(Session &session) : session_(session)
    {
        session_.inside_++;
        may = !session_.closing();
    }
    ~Inside() { session_.inside_--; }
    Inside(const Inside &) = delete;
    Inside &operator=(const Inside &) = delete;

    bool may;

  private:
    Session &session_;
};

/** What an operation is called where it is posted, profiled and blamed. */
struct Operation {
    c10d::OpType type;
    const char *name;  /* "all_reduce" */
    std::string title; /* "wring:all_reduce", for profilers */
};

/** All of them, for a backend of that name. */
struct Operations {
    explicit Operations(const std::string &backend)
    {
        for (Operation *one : {&all_reduce, &reduce, &broadcast, &all_gather, &all_gather_base,
                               &reduce_scatter, &reduce_scatter_base, &gather, &scatter,
                               &all_to_all, &all_to_all_base, &barrier, &send, &recv, &recv_any})
            one->title = backend + ":" + (one->title.empty() ? one->name : one->title);
    }
    using Type = c10d::OpType;
    Operation all_reduce{Type::ALLREDUCE, "all_reduce", ""};
    Operation reduce{Type::REDUCE, "reduce", ""};
    Operation broadcast{Type::BROADCAST, "broadcast", ""};
    Operation all_gather{Type::ALLGATHER, "all_gather", ""};
    Operation all_gather_base{Type::_ALLGATHER_BASE, "all_gather_single", "_all_gather_base"};
    Operation reduce_scatter{Type::REDUCE_SCATTER, "reduce_scatter", ""};
    Operation reduce_scatter_base{Type::_REDUCE_SCATTER_BASE, "reduce_scatter_single",
                                  "_reduce_scatter_base"};
    Operation gather{Type::GATHER, "gather", ""};
    Operation scatter{Type::SCATTER, "scatter", ""};
    Operation all_to_all{Type::ALLTOALL, "all_to_all", ""};
    Operation all_to_all_base{Type::ALLTOALL_BASE, "all_to_all_single", "all_to_all"};
    Operation barrier{Type::BARRIER, "barrier", ""};
    Operation send{Type::SEND, "send", ""};
    Operation recv{Type::RECV, "recv", ""};
    Operation recv_any{Type::RECVANYSOURCE, "recv", "recvAnySource"};
};

/** A process group's part: the wring group, and the operations under way, oldest first. Once it is
 *  shut its handle may be that of a group that is no more. */
class Group {
  public:
    Group(std::shared_ptr<Session> session, wring_group *handle, std::string name, bool is_world,
          int rank, int size, Milliseconds timeout)
        : session(std::move(session)), handle(handle), name(std::move(name)), is_world(is_world),
          rank(rank), size(size), operations(this->name), timeout_ms(timeout.count())
    {
        this->session->join();
        this->session->list(&shut);
    }
    ~Group()
    {
        shut_down(false);
        session->unlist(&shut);
    }
    Group(const Group &) = delete;
    Group &operator=(const Group &) = delete;

    /** It takes part no more; the session's last group closes that.
     *  @param politely  the program asked for it, in a thread that may wait */
    void shut_down(bool politely)
    {
        if (shut.exchange(true))
            return;
        {
            Inside inside(*session);
            if (inside.may && !is_world)
                wring_group_destroy(handle);
        }
        session->leave(politely);
    }

    void list(Work *work);
    void unlist(Work *work);
    std::vector<c10::intrusive_ptr<Work>> under_way();
    bool any_under_way();

    const std::shared_ptr<Session> session;
    wring_group *const handle;
    const std::string name; /* of the backend: "wring", or whose place it takes */
    const bool is_world;
    const int rank, size;
    const Operations operations;

    std::atomic<int64_t> timeout_ms;
    std::atomic<uint64_t> sequence{0};
    std::atomic<bool> shut{false}, aborted{false};

  private:
    std::mutex mutex_;
    Work *oldest_ = nullptr, *newest_ = nullptr;
};

} // namespace wring_torch

#endif
