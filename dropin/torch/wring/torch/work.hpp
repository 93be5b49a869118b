/* SPDX-License-Identifier: Apache-2.0 */
/** An operation of a process group, from its post to its end. */
#ifndef WRING_TORCH_WORK_HPP
#define WRING_TORCH_WORK_HPP

#include <functional>
#include <sstream>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "completer.hpp"

namespace wring_torch {

constexpr uint64_t WHERE_NS = 1'000'000'000; /* for ranks to say where they are */

/**
 * One request of the library.
 *
 * It ends in the library's callback, which comes exactly once, in a thread that must not wait. A
 * thread that waits for the work drives the exchange meanwhile, and so is its request's owner; a
 * request without one belongs to the callback. Whoever owns it takes its end, which frees it.
 */
class Work : public c10d::Work {
  public:
    Work(std::shared_ptr<Group> group, const Operation &operation, uint64_t sequence,
         std::vector<at::Tensor> outputs, Milliseconds timeout, bool profiled,
         const std::optional<std::vector<at::Tensor>> &inputs)
        : c10d::Work(group->rank, operation.type,
                     profiled ? operation.title.c_str() : nullptr, inputs),
          group_(std::move(group)), operation_(operation), sequence_(sequence),
          outputs_(std::move(outputs)), timeout_(timeout)
    {
    }

    /* ---- what the group does with it ---- */

    /** @param issue  calls the library: issue(options, request) */
    template <class Issue> void post(Issue issue)
    {
        wring_call how = WRING_CALL_INIT;
        how.factor = factor;
        how.done = [](void *work, const wring_result *result) {
            auto ours = c10::intrusive_ptr<Work>::reclaim(static_cast<Work *>(work));
            ours->on_end(*result);
            drop(std::move(ours));
        };
        how.done_arg = this;
        begun_ = Clock::now();
        c10::raw::intrusive_ptr::incref(this); /* the callback's */
        group_->list(this);
        wring_status status;
        try {
            Inside inside(*group_->session);
            if (!inside.may || group_->shut)
                fail_as_gone();
            status = issue(&how, &request_);
        } catch (...) {
            group_->unlist(this);
            c10::raw::intrusive_ptr::decref(this);
            throw;
        }
        if (status == WRING_OK) {
            return;
        }
        group_->unlist(this);
        wring_result result = WRING_RESULT_INIT;
        result.status = status;
        result.rank = -1;
        std::string text = describe(result);
        c10::raw::intrusive_ptr::decref(this);
        fail(text);
    }

    /** Do it here and now. The thread may wait, and holds no lock of Python's.
     *  @param issue  as for post() */
    template <class Issue> void run(Issue issue)
    {
        wring_call how = WRING_CALL_INIT;
        if (group_->shut)
            fail_as_gone();
        how.factor = factor;
        begun_ = Clock::now();
        owner_ = Owner::waiter;
        blocks_ = true;
        group_->list(this);
        result_.status = WRING_ERR_CLOSED;
        result_.rank = -1;
        try {
            Inside inside(*group_->session);
            if (inside.may && !group_->shut)
                result_.status = issue(&how, nullptr);
        } catch (...) {
            group_->unlist(this);
            throw;
        }
        ended_ = true;
        complete(true);
        if (exception_)
            std::rethrow_exception(exception_);
    }

    /** Its timeout has passed, and no thread waits for it: end it. */
    void expire()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        if (!ended_ && blocks_ && !cancelled_) { /* its thread is inside the call, which that ends */
            cancelled_ = true;
            late_ = gave_up_ == nullptr;
            lock.unlock();
            Inside inside(*group_->session);
            if (inside.may && wring_group_abort(group_->handle) == WRING_ERR_BUSY) {
                group_->session->keep(keep);
                group_->session->keep(outputs_);
            }
            return;
        }
        if (ended_ || owner_ != Owner::nobody)
            return;
        owner_ = Owner::waiter;
        lock.unlock();
        await(Clock::time_point::max());
    }

    /** Give it up: the group is aborted. */
    void give_up(const char *why)
    {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            if (ended_)
                return;
            gave_up_ = why;
        }
        expire();
    }

    bool is_late(Clock::time_point now) const { return now >= deadline(); }
    bool is_message() const { return c10d::isP2POp(opType_); }
    const Operation &operation() const { return operation_; }

    /* set before post() */
    std::function<void()> finish_copies;   /* from memory of our own into the outputs; may be empty */
    std::vector<at::Tensor> keep;          /* inputs, and memory of our own */
    std::vector<uint64_t> lengths, others; /* of runs */
    double factor = 0;                     /* of premul_sum */
    uint64_t bytes = 0;                    /* of the data, for messages */
    const char *type = "";                 /* of elements */
    int peer = -1;                         /* of a message: the other rank */

    /* in the group's list */
    Work *older = nullptr, *newer = nullptr;

    /* ---- what torch asks of it ---- */

    bool wait(Milliseconds timeout = kNoTimeout) override
    {
        auto until = timeout == kNoTimeout ? Clock::time_point::max() : Clock::now() + timeout;
        std::unique_lock<std::mutex> lock(mutex_);
        while (!completed_) {
            if (!ended_ && owner_ == Owner::nobody) {
                owner_ = Owner::waiter;
                lock.unlock();
                bool ended = await(until);
                lock.lock();
                if (ended)
                    continue;
            } else if (until == Clock::time_point::max()) {
                cv_.wait(lock);
                continue;
            } else if (cv_.wait_until(lock, until) != std::cv_status::timeout || completed_) {
                continue;
            }
            lock.unlock();
            fail(head() + ": wait() has reached its timeout of " +
                 std::to_string(timeout.count()) + " ms; the operation goes on");
        }
        auto exception = exception_;
        lock.unlock();
        if (exception)
            std::rethrow_exception(exception);
        return true;
    }

    bool isCompleted() override
    {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            if (completed_)
                return true;
        }
        look();
        return c10d::Work::isCompleted();
    }

    void synchronize() override {}
    void abort() override { give_up("was aborted by the program"); }
    std::vector<at::Tensor> result() override { return outputs_; }
    int sourceRank() const override { return source_; }
    uint64_t getSequencenumber() const override { return sequence_; }
    Milliseconds getTimeout() const { return timeout_; }

    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override
    {
        std::unique_lock<std::mutex> lock(mutex_);
        if (future_)
            return future_;
        future_ = c10::make_intrusive<c10::ivalue::Future>(
            c10::ListType::create(c10::TensorType::get()));
        auto future = future_;
        bool now = completed_;
        lock.unlock();
        if (now)
            settle(future);
        return future;
    }

  private:
    enum class Owner { nobody, waiter, callback };

    [[noreturn]] void fail_as_gone() const
    {
        fail(std::string(operation_.name) +
             ": the process group was destroyed, or waits for reconfigure(): make another one");
    }

    Clock::time_point deadline() const
    {
        return timeout_.count() <= 0 ? Clock::time_point::max() : begun_ + timeout_;
    }

    /** In a thread of the library's, or in one that makes any call to it. */
    void on_end(const wring_result &result)
    {
        std::unique_lock<std::mutex> lock(mutex_);
        if (ended_)
            return;
        result_ = result;
        ended_ = true;
        if (owner_ != Owner::nobody)
            return; /* who waits takes it */
        owner_ = Owner::callback;
        bool here = result.status != WRING_ERR_CANCELLED && !future_ && !finish_copies &&
                    !recordFunctionEndCallback_;
        lock.unlock();
        wring_request_test(request_, nullptr);
        if (here) {
            complete(false);
            return;
        }
        auto self = c10::intrusive_ptr<Work>::unsafe_reclaim_from_nonowning(this);
        Completer::own().push([self] { self->complete(true); });
    }

    /** Take its end if it is there, without waiting. */
    void look()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        if (ended_ || owner_ != Owner::nobody)
            return;
        owner_ = Owner::waiter;
        lock.unlock();
        wring_result result = WRING_RESULT_INIT;
        wring_status status = WRING_ERR_AGAIN;
        {
            Inside inside(*group_->session);
            if (inside.may)
                status = wring_request_test(request_, &result);
        }
        if (status == WRING_ERR_AGAIN || status == WRING_ERR_CLOSED) {
            if (hand_back())
                complete(true);
            return;
        }
        hear(status, result);
        complete(true);
    }

    /** As the owner. @return false: `until` came first, and nobody owns it now */
    bool await(Clock::time_point until)
    {
        for (;;) {
            auto now = Clock::now();
            if (now >= deadline() || gave_up_ != nullptr)
                give_up_request();
            else if (now >= until)
                return hand_back() ? (complete(true), true) : false;
            auto next = std::min(until, deadline());
            uint64_t slice = SLICE_NS;
            if (next > now && next != Clock::time_point::max())
                slice = std::min<uint64_t>(
                    slice, std::chrono::duration_cast<std::chrono::nanoseconds>(next - now).count());
            wring_result result = WRING_RESULT_INIT;
            wring_status status = WRING_ERR_CLOSED;
            {
                Inside inside(*group_->session);
                if (inside.may)
                    status = wring_request_wait(request_, slice, &result);
            }
            if (status == WRING_ERR_TIMEOUT)
                continue;
            if (status == WRING_ERR_CLOSED)
                await_callback();
            else
                hear(status, result);
            complete(true);
            return true;
        }
    }

    /** The session is being closed under us: the callback says how it ended. */
    void await_callback()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        while (!ended_)
            cv_.wait_for(lock, Milliseconds(1));
    }

    void give_up_request()
    {
        if (cancelled_)
            return;
        cancelled_ = true;
        late_ = gave_up_ == nullptr;
        Inside inside(*group_->session);
        if (inside.may && wring_request_cancel(request_) == WRING_ERR_BUSY) {
            group_->session->keep(keep);
            group_->session->keep(outputs_);
        }
    }

    /** The owner has been told how it ended; the request is no more. */
    void hear(wring_status status, const wring_result &result)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (ended_)
            return;
        result_ = result;
        result_.status = status;
        ended_ = true;
    }

    /** The owner stops waiting. @return true: it has ended meanwhile, and is still ours */
    bool hand_back()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        if (!ended_) {
            owner_ = Owner::nobody;
            return false;
        }
        owner_ = Owner::callback;
        lock.unlock();
        wring_request_test(request_, nullptr);
        return true;
    }

    /** Once, by its owner. @param free  in a thread that may run Python and let go of tensors */
    void complete(bool free)
    {
        std::exception_ptr exception;
        group_->unlist(this);
        try {
            check_end();
            if (finish_copies) {
                at::NoGradGuard no_grad;
                finish_copies();
            }
        } catch (...) {
            exception = std::current_exception();
        }
        if (free) {
            finish_copies = nullptr;
            keep.clear();
        }
        finish(exception);
        std::unique_lock<std::mutex> lock(mutex_);
        auto future = future_;
        lock.unlock();
        if (!future)
            return;
        if (free) {
            settle(future);
            return;
        }
        auto self = c10::intrusive_ptr<Work>::unsafe_reclaim_from_nonowning(this);
        Completer::own().push([self, future] { self->settle(future); });
    }

    /** Throws where it has failed. */
    void check_end()
    {
        if (result_.status == WRING_OK && opType_ == c10d::OpType::RECVANYSOURCE)
            source_ = result_.rank;
        bool receives = opType_ == c10d::OpType::RECV || opType_ == c10d::OpType::RECVANYSOURCE;
        bool fits = result_.status == WRING_OK && (!receives || result_.bytes == bytes);
        if (fits)
            return;
        if (receives && (result_.status == WRING_OK || result_.status == WRING_ERR_TRUNCATED))
            fail(head() + ": rank " + std::to_string(result_.rank) + " has sent " +
                 std::to_string(result_.bytes) + " bytes, and the tensor to receive into has " +
                 std::to_string(bytes) + ": both need the same shape and type");
        fail(describe(result_));
    }

    /** Once for each future. In no thread of the library's: callbacks may wait. */
    void settle(const c10::intrusive_ptr<c10::ivalue::Future> &future)
    {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            if (settled_)
                return;
            settled_ = true;
        }
        if (exception_)
            future->setError(exception_);
        else
            future->markCompleted(c10::IValue(outputs_));
    }

    /** The last reference of the callback's: tensors of Python are let go of elsewhere. */
    static void drop(c10::intrusive_ptr<Work> work)
    {
        if (work.use_count() > 1)
            return;
        auto *last = work.release();
        Completer::own().push([last] { c10::intrusive_ptr<Work>::reclaim(last); });
    }

    /** "all_reduce, operation 12 of the group, 4 MiB of float32, on rank 1" */
    std::string head() const
    {
        std::ostringstream text;
        text << operation_.name << " (operation " << sequence_;
        if (bytes > 0)
            text << ", " << bytes << " bytes of " << type;
        if (peer >= 0)
            text << ", with rank " << peer;
        text << ") on rank " << group_->rank;
        return text.str();
    }

    /** Who is elsewhere than this rank, once a collective has timed out. In no callback. */
    std::string who_is_behind() const
    {
        char line[WRING_WHERE_TEXT];
        Inside inside(*group_->session);
        bool known = inside.may && !group_->shut &&
                     wring_group_where(group_->handle, WHERE_NS, line, sizeof(line)) == WRING_OK;
        return known ? line : "another rank has not taken part";
    }

    std::string why_late(const std::string &failure) const
    {
        if (is_message())
            return "the other rank has not taken part";
        return failure.empty() ? who_is_behind() : failure;
    }

    std::string describe(const wring_result &result) const
    {
        std::string why = group_->session->failure();
        if (late_)
            return head() + " has reached its timeout of " + std::to_string(timeout_.count()) +
                   " ms: " + why_late(why);
        if (gave_up_ != nullptr)
            return head() + " " + gave_up_.load();
        if (result.status == WRING_ERR_CANCELLED && why.empty())
            return head() + ": " +
                   (result.rank >= 0 ? "rank " + std::to_string(result.rank) : "another rank") +
                   " has aborted the group, as after a timeout there";
        if (result.status == WRING_ERR_CLOSED && why.empty())
            return head() + ": the process group was destroyed meanwhile";
        if (why.empty() && result.rank >= 0)
            why = "rank " + std::to_string(result.rank);
        return head() + ": " + (why.empty() ? "" : why + ": ") + wring_status_text(result.status);
    }

    const std::shared_ptr<Group> group_;
    const Operation &operation_;
    const uint64_t sequence_;
    const std::vector<at::Tensor> outputs_;
    const Milliseconds timeout_;
    Clock::time_point begun_;
    wring_request *request_ = nullptr;

    /* under the mutex */
    Owner owner_ = Owner::nobody;
    bool ended_ = false, settled_ = false;
    wring_result result_ = WRING_RESULT_INIT;
    c10::intrusive_ptr<c10::ivalue::Future> future_;

    /* the owner's */
    bool cancelled_ = false, late_ = false;
    std::atomic<const char *> gave_up_{nullptr};
    int source_ = -1;
    bool blocks_ = false;
};

/** Several operations that are waited for together. */
class Works : public c10d::Work {
  public:
    /** @param title  for profilers; NULL: its parts have their own */
    Works(int rank, c10d::OpType type, const char *title,
          const std::optional<std::vector<at::Tensor>> &inputs)
        : c10d::Work(rank, type, title, inputs)
    {
    }

    /** Only before anybody else knows of it. */
    void add(c10::intrusive_ptr<c10d::Work> part) { parts_.push_back(std::move(part)); }

    bool wait(Milliseconds timeout = kNoTimeout) override
    {
        std::exception_ptr first; /* all of them end before one of them throws */
        for (auto &part : parts_) {
            try {
                part->wait(timeout);
            } catch (...) {
                first = first ? first : std::current_exception();
            }
        }
        isCompleted();
        if (first)
            std::rethrow_exception(first);
        return true;
    }

    bool isCompleted() override
    {
        for (auto &part : parts_)
            if (!part->isCompleted())
                return false;
        if (!profiled_.exchange(true)) /* this is seen by whoever asks first */
            finish(exception());
        return true;
    }

    bool isSuccess() const override
    {
        for (auto &part : parts_)
            if (!part->isSuccess())
                return false;
        return true;
    }

    std::exception_ptr exception() const override
    {
        for (auto &part : parts_)
            if (auto exception = part->exception())
                return exception;
        return nullptr;
    }

    void synchronize() override {}

    void abort() override
    {
        for (auto &part : parts_)
            part->abort();
    }

    std::vector<at::Tensor> result() override
    {
        std::vector<at::Tensor> all;
        for (auto &part : parts_)
            for (auto &tensor : part->result())
                all.push_back(tensor);
        return all;
    }

    uint64_t getSequencenumber() const override
    {
        return parts_.empty() ? 0 : parts_.back()->getSequencenumber();
    }

    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override
    {
        c10::List<c10::intrusive_ptr<c10::ivalue::Future>> futures(
            c10::FutureType::create(c10::ListType::create(c10::TensorType::get())));
        for (auto &part : parts_)
            futures.push_back(part->getFuture());
        auto tensors = result();
        return c10::collectAll(futures)->then(
            [tensors](c10::ivalue::Future &all) {
                for (const c10::IValue &one : all.value().toList().vec())
                    one.toFuture()->value(); /* throws what that one has thrown */
                return c10::IValue(tensors);
            },
            c10::ListType::create(c10::TensorType::get()));
    }

  private:
    std::vector<c10::intrusive_ptr<c10d::Work>> parts_;
    std::atomic<bool> profiled_{false};
};

/* ---- the group's list ---- */

inline void Group::list(Work *work)
{
    session->count_work(1);
    std::lock_guard<std::mutex> lock(mutex_);
    work->older = newest_;
    (newest_ != nullptr ? newest_->newer : oldest_) = work;
    newest_ = work;
}

inline void Group::unlist(Work *work)
{
    {
        std::lock_guard<std::mutex> lock(mutex_);
        (work->older != nullptr ? work->older->newer : oldest_) = work->newer;
        (work->newer != nullptr ? work->newer->older : newest_) = work->older;
    }
    session->count_work(-1);
}

inline std::vector<c10::intrusive_ptr<Work>> Group::under_way()
{
    std::vector<c10::intrusive_ptr<Work>> all;
    std::lock_guard<std::mutex> lock(mutex_);
    for (Work *at = oldest_; at != nullptr; at = at->newer)
        all.push_back(c10::intrusive_ptr<Work>::unsafe_reclaim_from_nonowning(at));
    return all;
}

inline bool Group::any_under_way()
{
    std::lock_guard<std::mutex> lock(mutex_);
    return oldest_ != nullptr;
}

} // namespace wring_torch

#endif
