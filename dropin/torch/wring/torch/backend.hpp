/* SPDX-License-Identifier: Apache-2.0 */
/** wring as a backend of torch.distributed: each operation in terms of wring's immediate calls. */
#ifndef WRING_TORCH_BACKEND_HPP
#define WRING_TORCH_BACKEND_HPP

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "tensors.hpp"
#include "work.hpp"

namespace wring_torch {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

/** A process group on CPU tensors. Threads: as torch has it, one at a time posts. */
class Backend : public c10d::Backend {
  public:
    Backend(std::shared_ptr<Group> group, std::string group_name);
    ~Backend() override;

    const std::string getBackendName() const override { return group_->name; }
    c10::intrusive_ptr<Options> getBackendOptions() override;
    wring_group *handle() const { return group_->handle; }

    WorkPtr allreduce(Tensors &tensors, const c10d::AllreduceOptions &opts) override;
    WorkPtr allreduce_coalesced(Tensors &tensors,
                                const c10d::AllreduceCoalescedOptions &opts) override;
    WorkPtr allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &opts) override;
    WorkPtr reduce(Tensors &tensors, const c10d::ReduceOptions &opts) override;
    WorkPtr broadcast(Tensors &tensors, const c10d::BroadcastOptions &opts) override;
    WorkPtr allgather(std::vector<Tensors> &outputs, Tensors &inputs,
                      const c10d::AllgatherOptions &opts) override;
    WorkPtr _allgather_base(at::Tensor &output, at::Tensor &input,
                            const c10d::AllgatherOptions &opts) override;
    WorkPtr allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs,
                                const c10d::AllgatherOptions &opts) override;
    WorkPtr allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                            const c10d::AllgatherOptions &opts) override;
    WorkPtr reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                           const c10d::ReduceScatterOptions &opts) override;
    WorkPtr _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                 const c10d::ReduceScatterOptions &opts) override;
    WorkPtr reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                            const c10d::ReduceScatterOptions &opts) override;
    WorkPtr gather(std::vector<Tensors> &outputs, Tensors &inputs,
                   const c10d::GatherOptions &opts) override;
    WorkPtr scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                    const c10d::ScatterOptions &opts) override;
    WorkPtr alltoall(Tensors &outputs, Tensors &inputs,
                     const c10d::AllToAllOptions &opts) override;
    WorkPtr alltoall_base(at::Tensor &output, at::Tensor &input,
                          std::vector<int64_t> &output_splits, std::vector<int64_t> &input_splits,
                          const c10d::AllToAllOptions &opts) override;
    WorkPtr barrier(const c10d::BarrierOptions &opts) override;
    void monitoredBarrier(const c10d::BarrierOptions &opts, bool wait_all) override;

    WorkPtr send(Tensors &tensors, int to, int tag) override;
    WorkPtr recv(Tensors &tensors, int from, int tag) override;
    WorkPtr recvAnysource(Tensors &tensors, int tag) override;

    bool supportsCoalescing() const override { return true; }
    void startCoalescing() override;
    WorkPtr endCoalescing() override;

    void setSequenceNumberForGroup() override {}
    uint64_t getSequenceNumberForGroup() override { return group_->sequence; }
    void enableCollectivesTiming() override {}

    /* What follows is not in every version of torch, so none of it says override. */
    WorkPtr gather_single(at::Tensor &output, at::Tensor &input, const c10d::GatherOptions &opts);
    bool supportsSplitting() const { return true; }
    c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store> &store,
                                            const std::vector<int> &ranks,
                                            const c10::intrusive_ptr<Options> &opts);
    bool supportsShrinking() const { return true; }
    c10::intrusive_ptr<c10d::Backend> shrink(const std::vector<int64_t> &excluded, int flags,
                                             const c10::intrusive_ptr<Options> &opts);
#ifdef C10D_BACKEND_HAS_RECONFIGURE
    bool supportsReconfigure() const { return true; }
    c10d::ReconfigureHandle get_reconfigure_handle() const;
    WorkPtr reconfigure(const c10d::ReconfigureOptions &opts);
#endif
    void setTimeout(Milliseconds timeout) { group_->timeout_ms = timeout.count(); }
    bool supportsTensorAlloc(c10::DeviceIndex) { return true; }
    at::Tensor allocateTensor(long size, at::TensorOptions options = {});
    void abort();
    void shutdown();

    /** It takes no part from here on, until it is made anew by reconfigure(). */
    void await_reconfigure() { group_->shut_down(false); }

    /* What sessions are opened and replaced by, in Python; they throw what that raises. */
    static inline std::function<void(uintptr_t)> shrinks;
    static inline std::function<std::string(const std::string &)> names_door;
    static inline std::function<std::shared_ptr<Session>(
        const std::string &, const std::vector<std::string> &, int64_t, int64_t)>
        reopens;

  private:
    void watch();
    c10::intrusive_ptr<Work> work(const Operation &operation, Tensors outputs,
                                  Milliseconds timeout, Tensors inputs);
    template <class Post>
    WorkPtr several(c10d::OpType type, const Operation *operation, const Tensors &inputs,
                    size_t n, Post post);
    template <class Call, class Issue>
    WorkPtr start(const c10::intrusive_ptr<Work> &work, const Call &opts, Issue issue);
    WorkPtr message(const Operation &operation, Tensors &tensors, int peer, int tag);
    bool pass_byte(bool send, uint32_t peer, uint64_t tag, Clock::time_point deadline);
    void answer_barrier(uint64_t tag, Clock::time_point deadline);

    std::shared_ptr<Group> group_; /* another one after reconfigure() */
    const std::string group_name_;
    bool coalescing_ = false;
    bool part_ = false; /* what is posted is one of several, which are profiled as one */
    std::vector<WorkPtr> coalesced_;
    uint64_t barriers_ = 0;
};

} // namespace wring_torch

#endif
