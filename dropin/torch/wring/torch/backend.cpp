/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled for the torch at hand on first use: native.py. */
#include "backend.hpp"

#include <array>
#include <unordered_set>
#include <variant>

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

namespace wring_torch {

constexpr uint64_t INTERNAL_TAGS = uint64_t(1) << 40; /* above all of torch's, which are ints */

Backend::Backend(std::shared_ptr<Group> group, std::string group_name)
    : c10d::Backend(group->rank, group->size), group_(std::move(group)),
      group_name_(std::move(group_name))
{
    init();
    watch();
}

void Backend::watch()
{
    std::weak_ptr<Group> watched = group_;
    Completer::own().watch([watched] {
        auto group = watched.lock();
        if (!group)
            return false;
        auto now = Clock::now();
        for (auto &work : group->under_way())
            if (work->is_late(now))
                work->expire();
        return true;
    });
}

/** What may wait for other threads, which may need Python. */
template <class Body> static void without_gil(Body body)
{
    if (Py_IsInitialized() && PyGILState_Check()) {
        pybind11::gil_scoped_release release;
        body();
    } else {
        body();
    }
}

Backend::~Backend()
{
    without_gil([this] { group_->shut_down(false); });
}

void Backend::shutdown()
{
    without_gil([this] { group_->shut_down(true); });
}

void Backend::abort()
{
    without_gil([this] {
        group_->aborted = true;
        for (auto &work : group_->under_way())
            if (work->is_message())
                work->abort();
        Inside inside(*group_->session);
        if (!inside.may || group_->shut)
            return;
        if (group_->is_world)
            wring_session_abort(group_->session->handle());
        else
            wring_group_abort(group_->handle);
    });
}

c10::intrusive_ptr<c10d::Backend::Options> Backend::getBackendOptions()
{
    auto options =
        c10::make_intrusive<Options>(group_->name, Milliseconds(group_->timeout_ms.load()));
    options->group_name = group_name_;
    return options;
}

c10::intrusive_ptr<Work> Backend::work(const Operation &operation, Tensors outputs,
                                       Milliseconds timeout, Tensors inputs)
{
    if (timeout == c10d::kUnsetTimeout)
        timeout = Milliseconds(group_->timeout_ms.load());
    uint64_t sequence =
        c10d::isP2POp(operation.type) ? group_->sequence.load() : ++group_->sequence;
    auto made = c10::make_intrusive<Work>(group_, operation, sequence, std::move(outputs), timeout,
                                          !part_, std::optional<Tensors>(inputs));
    made->keep = std::move(inputs);
    return made;
}

/** Does the program wait for it right away? Older versions of torch do not say. */
template <class Call> static bool waits_at_once(const Call &opts)
{
    if constexpr (requires { opts.asyncOp; })
        return !opts.asyncOp;
    return false;
}

/** A message's: it has none. */
struct NoOptions {
};

template <class Call, class Issue>
WorkPtr Backend::start(const c10::intrusive_ptr<Work> &work, const Call &opts, Issue issue)
{
    bool alone = group_->size == 1 && !work->is_message(); /* it ends at once */
    if ((alone || waits_at_once(opts)) && !coalescing_ && !part_)
        without_gil([&] { work->run(issue); });
    else
        work->post(issue);
    if (coalescing_ && !part_)
        coalesced_.push_back(work);
    return work;
}

/** @param post  post(i) posts the i-th operation of n
 *  @param operation  as which they are profiled together; NULL: each alone */
template <class Post>
WorkPtr Backend::several(c10d::OpType type, const Operation *operation, const Tensors &inputs,
                         size_t n, Post post)
{
    auto works = c10::make_intrusive<Works>(
        getRank(), type, operation != nullptr ? operation->title.c_str() : nullptr,
        std::optional<Tensors>(inputs));
    part_ = true;
    try {
        for (size_t i = 0; i < n; i++)
            works->add(post(i));
    } catch (...) {
        part_ = false;
        throw;
    }
    part_ = false;
    if (coalescing_)
        coalesced_.push_back(works);
    return works;
}

/** What a work says of its data. */
static void note(const c10::intrusive_ptr<Work> &work, const at::Tensor &tensor)
{
    work->bytes = tensor.nbytes();
    work->type = c10::toString(tensor.scalar_type());
}

/** A tensor's own memory, or that of a copy, from which the work copies back at its end. */
static at::Tensor writable(const c10::intrusive_ptr<Work> &work, at::Tensor tensor, bool filled)
{
    if (tensor.is_contiguous())
        return tensor;
    at::NoGradGuard no_grad;
    at::Tensor copy = filled ? tensor.detach().contiguous() : memory_like(tensor, tensor.numel());
    work->keep.push_back(copy);
    work->finish_copies = [tensor, copy]() mutable { tensor.copy_(copy.view(tensor.sizes())); };
    return copy;
}

/* ---- all ranks end with the same ---------------------------------------------------------- */

WorkPtr Backend::allreduce(Tensors &tensors, const c10d::AllreduceOptions &opts)
{
    const Operation &operation = group_->operations.all_reduce;
    at::Tensor &tensor = single(operation.name, tensors);
    auto reduction = reduction_of(operation.name, opts.reduceOp, tensor.scalar_type());
    auto dtype = *dtype_of(tensor.scalar_type());
    auto made = work(operation, {tensor}, opts.timeout, {tensor});
    note(made, tensor);
    made->factor = reduction.factor;
    at::Tensor data = writable(made, tensor, true);
    return start(made, opts, [&](wring_call *how, wring_request **request) {
        return wring_allreduce(group_->handle, data.data_ptr(), data.data_ptr(), data.numel(),
                               dtype, reduction.op, how, request);
    });
}

WorkPtr Backend::allreduce_coalesced(Tensors &tensors,
                                     const c10d::AllreduceCoalescedOptions &opts)
{
    for (auto &tensor : tensors) /* before the first begins */
        check_tensor("all_reduce_coalesced", tensor);
    return several(c10d::OpType::ALLREDUCE_COALESCED, &group_->operations.all_reduce, tensors,
                   tensors.size(), [&](size_t i) {
                       Tensors one{tensors[i]};
                       return allreduce(one, opts);
                   });
}

WorkPtr Backend::allreduce_sparse(Tensors &, const c10d::AllreduceOptions &)
{
    fail("all_reduce: a sparse tensor: pass tensor.to_dense()");
}

WorkPtr Backend::broadcast(Tensors &tensors, const c10d::BroadcastOptions &opts)
{
    const Operation &operation = group_->operations.broadcast;
    at::Tensor &tensor = single(operation.name, tensors);
    check_root(operation.name, opts.rootRank, group_->size);
    auto made = work(operation, {tensor}, opts.timeout, {tensor});
    note(made, tensor);
    at::Tensor data = writable(made, tensor, opts.rootRank == getRank());
    return start(made, opts, [&](wring_call *how, wring_request **request) {
        return wring_broadcast(group_->handle, data.data_ptr(), data.nbytes(),
                               static_cast<uint32_t>(opts.rootRank), how, request);
    });
}

WorkPtr Backend::allgather(std::vector<Tensors> &outputs, Tensors &inputs,
                           const c10d::AllgatherOptions &opts)
{
    const Operation &operation = group_->operations.all_gather;
    at::Tensor input = single(operation.name, inputs);
    if (outputs.size() != 1 || outputs[0].size() != static_cast<size_t>(group_->size))
        fail("all_gather: needs a list of one tensor for each of the " +
             std::to_string(group_->size) + " ranks");
    Tensors &parts = outputs[0];
    for (auto &one : parts) {
        check_tensor(operation.name, one);
        check_like(operation.name, input, one);
    }
    if (parts[getRank()].numel() != input.numel())
        fail("all_gather: the tensor has " + std::to_string(input.numel()) +
             " elements, and its place in the list " +
             std::to_string(parts[getRank()].numel()) + ": give both the same shape");
    auto made = work(operation, parts, opts.timeout, {input});
    note(made, input);
    at::NoGradGuard no_grad;
    at::Tensor data = input.detach().contiguous();
    auto kind = moved_as(input);
    bool even = true;
    int64_t elems = 0;
    for (auto &one : parts) {
        made->lengths.push_back(one.numel() * kind.bytes);
        even = even && one.numel() == input.numel();
        elems += one.numel();
    }
    auto *direct = follow(parts);
    at::Tensor flat = direct != nullptr ? *direct : memory_like(input, elems);
    made->keep.push_back(data);
    made->keep.push_back(flat);
    if (direct == nullptr)
        made->finish_copies = [flat, parts]() mutable { part(flat, parts); };
    return start(made, opts, [&](wring_call *how, wring_request **request) {
        if (even)
            return wring_allgather(group_->handle, data.data_ptr(), flat.data_ptr(),
                                   input.numel() * kind.bytes, kind.dtype, how, request);
        return wring_allgatherv(group_->handle, data.data_ptr(), flat.data_ptr(),
                                made->lengths.data(), kind.dtype, how, request);
    });
}

WorkPtr Backend::_allgather_base(at::Tensor &output, at::Tensor &input,
                                 const c10d::AllgatherOptions &opts)
{
    const Operation &operation = group_->operations.all_gather_base;
    check_tensor(operation.name, input);
    check_tensor(operation.name, output);
    check_like(operation.name, input, output);
    if (output.numel() != input.numel() * group_->size)
        fail("all_gather_into_tensor: the output has " + std::to_string(output.numel()) +
             " elements and needs " + std::to_string(input.numel() * group_->size));
    auto made = work(operation, {output}, opts.timeout, {input});
    note(made, input);
    at::NoGradGuard no_grad;
    at::Tensor in = input.detach().contiguous(), out = writable(made, output, false);
    auto kind = moved_as(input);
    made->keep.push_back(in);
    return start(made, opts, [&](wring_call *how, wring_request **request) {
        return wring_allgather(group_->handle, in.data_ptr(), out.data_ptr(),
                               in.numel() * kind.bytes, kind.dtype, how, request);
    });
}

/** @param outputs  for each rank a list of tensors, one for each input */
WorkPtr Backend::allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs,
                                     const c10d::AllgatherOptions &opts)
{
    if (outputs.size() != static_cast<size_t>(group_->size))
        fail("all_gather_coalesced: needs a list for each of the " + std::to_string(group_->size) +
             " ranks");
    for (auto &list : outputs)
        if (list.size() != inputs.size())
            fail("all_gather_coalesced: each rank's list needs one tensor for each of the " +
                 std::to_string(inputs.size()) + " inputs");
    return several(c10d::OpType::ALLGATHER_COALESCED, &group_->operations.all_gather, inputs,
                   inputs.size(), [&](size_t i) {
                       std::vector<Tensors> one(1);
                       for (auto &list : outputs)
                           one[0].push_back(list[i]);
                       Tensors input{inputs[i]};
                       return allgather(one, input, opts);
                   });
}

WorkPtr Backend::allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                 const c10d::AllgatherOptions &opts)
{
    if (outputs.size() != inputs.size())
        fail("all_gather_into_tensor_coalesced: needs as many outputs as inputs");
    return several(c10d::OpType::ALLGATHER_INTO_TENSOR_COALESCED,
                   &group_->operations.all_gather_base, inputs, inputs.size(),
                   [&](size_t i) { return _allgather_base(outputs[i], inputs[i], opts); });
}

/* ---- one rank, or each, ends with a part ---------------------------------------------------- */

WorkPtr Backend::reduce(Tensors &tensors, const c10d::ReduceOptions &opts)
{
    const Operation &operation = group_->operations.reduce;
    at::Tensor &tensor = single(operation.name, tensors);
    check_root(operation.name, opts.rootRank, group_->size);
    auto reduction = reduction_of(operation.name, opts.reduceOp, tensor.scalar_type());
    auto dtype = *dtype_of(tensor.scalar_type());
    auto made = work(operation, {tensor}, opts.timeout, {tensor});
    note(made, tensor);
    made->factor = reduction.factor;
    bool root = opts.rootRank == getRank();
    at::NoGradGuard no_grad;
    at::Tensor data = root ? writable(made, tensor, true) : tensor.detach().contiguous();
    made->keep.push_back(data);
    return start(made, opts, [&](wring_call *how, wring_request **request) {
        return wring_reduce(group_->handle, data.data_ptr(), root ? data.data_ptr() : nullptr,
                            data.numel(), dtype, reduction.op,
                            static_cast<uint32_t>(opts.rootRank), how, request);
    });
}

WorkPtr Backend::reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                                const c10d::ReduceScatterOptions &opts)
{
    const Operation &operation = group_->operations.reduce_scatter;
    at::Tensor output = single(operation.name, outputs);
    if (inputs.size() != 1 || inputs[0].size() != static_cast<size_t>(group_->size))
        fail("reduce_scatter: needs a list of one tensor for each of the " +
             std::to_string(group_->size) + " ranks");
    Tensors &parts = inputs[0];
    bool even = true;
    for (auto &one : parts) {
        check_tensor(operation.name, one);
        check_like(operation.name, output, one);
        even = even && one.numel() == output.numel();
    }
    if (parts[getRank()].numel() != output.numel())
        fail("reduce_scatter: the output has " + std::to_string(output.numel()) +
             " elements, and this rank's part of the input " +
             std::to_string(parts[getRank()].numel()) + ": give both the same shape");
    auto reduction = reduction_of(operation.name, opts.reduceOp, output.scalar_type());
    auto dtype = *dtype_of(output.scalar_type());
    auto made = work(operation, {output}, opts.timeout, parts);
    note(made, output);
    made->factor = reduction.factor;
    at::Tensor flat = joined(output, parts);
    at::Tensor out = writable(made, output, false);
    made->keep.push_back(flat);
    for (auto &one : parts)
        made->lengths.push_back(one.numel());
    return start(made, opts, [&](wring_call *how, wring_request **request) {
        if (even)
            return wring_reduce_scatter(group_->handle, flat.data_ptr(), out.data_ptr(),
                                        out.numel(), dtype, reduction.op, how, request);
        return wring_reduce_scatterv(group_->handle, flat.data_ptr(), out.data_ptr(),
                                     made->lengths.data(), dtype, reduction.op, how, request);
    });
}

WorkPtr Backend::_reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                      const c10d::ReduceScatterOptions &opts)
{
    const Operation &operation = group_->operations.reduce_scatter_base;
    check_tensor(operation.name, input);
    check_tensor(operation.name, output);
    check_like(operation.name, input, output);
    if (input.numel() != output.numel() * group_->size)
        fail("reduce_scatter_tensor: the input has " + std::to_string(input.numel()) +
             " elements and needs " + std::to_string(output.numel() * group_->size));
    auto reduction = reduction_of(operation.name, opts.reduceOp, output.scalar_type());
    auto dtype = *dtype_of(output.scalar_type());
    auto made = work(operation, {output}, opts.timeout, {input});
    note(made, output);
    made->factor = reduction.factor;
    at::NoGradGuard no_grad;
    at::Tensor in = input.detach().contiguous(), out = writable(made, output, false);
    made->keep.push_back(in);
    return start(made, opts, [&](wring_call *how, wring_request **request) {
        return wring_reduce_scatter(group_->handle, in.data_ptr(), out.data_ptr(), out.numel(),
                                    dtype, reduction.op, how, request);
    });
}

WorkPtr Backend::reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                 const c10d::ReduceScatterOptions &opts)
{
    if (outputs.size() != inputs.size())
        fail("reduce_scatter_tensor_coalesced: needs as many outputs as inputs");
    return several(c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED,
                   &group_->operations.reduce_scatter_base, inputs, inputs.size(),
                   [&](size_t i) { return _reduce_scatter_base(outputs[i], inputs[i], opts); });
}

WorkPtr Backend::gather(std::vector<Tensors> &outputs, Tensors &inputs,
                        const c10d::GatherOptions &opts)
{
    const Operation &operation = group_->operations.gather;
    at::Tensor input = single(operation.name, inputs);
    check_root(operation.name, opts.rootRank, group_->size);
    bool root = opts.rootRank == getRank();
    Tensors parts;
    if (root && (outputs.size() != 1 || outputs[0].size() != static_cast<size_t>(group_->size)))
        fail("gather: the root needs a list of one tensor for each of the " +
             std::to_string(group_->size) + " ranks");
    if (root)
        parts = outputs[0];
    for (auto &one : parts) {
        check_tensor(operation.name, one);
        check_like(operation.name, input, one);
        if (one.numel() != input.numel())
            fail("gather: a tensor of the list has " + std::to_string(one.numel()) +
                 " elements, and what is gathered " + std::to_string(input.numel()));
    }
    auto made = work(operation, parts, opts.timeout, {input});
    note(made, input);
    at::NoGradGuard no_grad;
    at::Tensor data = input.detach().contiguous(), flat;
    auto kind = moved_as(input);
    made->keep.push_back(data);
    if (root) {
        auto *direct = follow(parts);
        flat = direct != nullptr ? *direct : memory_like(input, input.numel() * group_->size);
        made->keep.push_back(flat);
        if (direct == nullptr)
            made->finish_copies = [flat, parts]() mutable { part(flat, parts); };
    }
    return start(made, opts, [&](wring_call *how, wring_request **request) {
        return wring_gather(group_->handle, data.data_ptr(), root ? flat.data_ptr() : nullptr,
                            data.numel() * kind.bytes, kind.dtype,
                            static_cast<uint32_t>(opts.rootRank), how, request);
    });
}

WorkPtr Backend::gather_single(at::Tensor &output, at::Tensor &input,
                               const c10d::GatherOptions &opts)
{
    const Operation &operation = group_->operations.gather;
    check_tensor(operation.name, input);
    check_root(operation.name, opts.rootRank, group_->size);
    bool root = opts.rootRank == getRank();
    if (root) {
        check_tensor(operation.name, output);
        check_like(operation.name, input, output);
        if (output.numel() != input.numel() * group_->size)
            fail("gather: the output has " + std::to_string(output.numel()) +
                 " elements and needs " + std::to_string(input.numel() * group_->size));
    }
    auto made = work(operation, root ? Tensors{output} : Tensors{}, opts.timeout, {input});
    note(made, input);
    at::NoGradGuard no_grad;
    at::Tensor data = input.detach().contiguous();
    at::Tensor flat = root ? writable(made, output, false) : at::Tensor();
    auto kind = moved_as(input);
    made->keep.push_back(data);
    return start(made, opts, [&](wring_call *how, wring_request **request) {
        return wring_gather(group_->handle, data.data_ptr(), root ? flat.data_ptr() : nullptr,
                            data.numel() * kind.bytes, kind.dtype,
                            static_cast<uint32_t>(opts.rootRank), how, request);
    });
}

WorkPtr Backend::scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                         const c10d::ScatterOptions &opts)
{
    const Operation &operation = group_->operations.scatter;
    at::Tensor output = single(operation.name, outputs);
    check_root(operation.name, opts.rootRank, group_->size);
    bool root = opts.rootRank == getRank();
    Tensors parts;
    if (root && (inputs.size() != 1 || inputs[0].size() != static_cast<size_t>(group_->size)))
        fail("scatter: the root needs a list of one tensor for each of the " +
             std::to_string(group_->size) + " ranks");
    if (root)
        parts = inputs[0];
    for (auto &one : parts) {
        check_tensor(operation.name, one);
        check_like(operation.name, output, one);
        if (one.numel() != output.numel())
            fail("scatter: a tensor of the list has " + std::to_string(one.numel()) +
                 " elements, and the output " + std::to_string(output.numel()));
    }
    auto made = work(operation, {output}, opts.timeout, parts);
    note(made, output);
    at::NoGradGuard no_grad;
    at::Tensor flat, out = writable(made, output, false);
    if (root) {
        flat = joined(output, parts);
        made->keep.push_back(flat);
    }
    auto kind = moved_as(output);
    return start(made, opts, [&](wring_call *how, wring_request **request) {
        return wring_scatter(group_->handle, root ? flat.data_ptr() : nullptr, out.data_ptr(),
                             out.numel() * kind.bytes, kind.dtype,
                             static_cast<uint32_t>(opts.rootRank), how, request);
    });
}

/* ---- everyone to everyone ------------------------------------------------------------------- */

WorkPtr Backend::alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &opts)
{
    const Operation &operation = group_->operations.all_to_all;
    size_t size = group_->size;
    if (outputs.size() != size || inputs.size() != size)
        fail("all_to_all: needs lists of one tensor for each of the " + std::to_string(size) +
             " ranks");
    for (size_t i = 0; i < size; i++) {
        check_tensor(operation.name, inputs[i]);
        check_tensor(operation.name, outputs[i]);
        check_like(operation.name, inputs[0], inputs[i]);
        check_like(operation.name, inputs[0], outputs[i]);
    }
    if (inputs[getRank()].numel() != outputs[getRank()].numel())
        fail("all_to_all: this rank sends itself " + std::to_string(inputs[getRank()].numel()) +
             " elements, and receives " + std::to_string(outputs[getRank()].numel()));
    auto made = work(operation, outputs, opts.timeout, inputs);
    auto kind = moved_as(inputs[0]);
    int64_t elems = 0;
    for (size_t i = 0; i < size; i++) {
        made->lengths.push_back(inputs[i].numel() * kind.bytes);
        made->others.push_back(outputs[i].numel() * kind.bytes);
        elems += outputs[i].numel();
    }
    at::NoGradGuard no_grad;
    auto *direct = follow(outputs);
    at::Tensor in = joined(inputs[0], inputs);
    at::Tensor out = direct != nullptr ? *direct : memory_like(outputs[0], elems);
    made->keep.push_back(in);
    made->keep.push_back(out);
    if (direct == nullptr)
        made->finish_copies = [out, outputs]() mutable { part(out, outputs); };
    return start(made, opts, [&](wring_call *how, wring_request **request) {
        return wring_alltoallv(group_->handle, in.data_ptr(), made->lengths.data(),
                               out.data_ptr(), made->others.data(), kind.dtype, how, request);
    });
}

/** Lengths in elements, of splits along the first dimension; none: equal ones. */
static std::vector<uint64_t> split_lengths(const char *which, const at::Tensor &tensor,
                                           const std::vector<int64_t> &splits, int size,
                                           uint64_t bytes)
{
    int64_t rows = tensor.dim() > 0 ? tensor.size(0) : 1, sum = 0;
    if (splits.empty()) {
        if (rows % size != 0)
            fail(std::string("all_to_all_single: the ") + which + "'s first dimension of " +
                 std::to_string(rows) + " cannot be split evenly among " + std::to_string(size) +
                 " ranks: pass split sizes");
        return std::vector<uint64_t>(size, tensor.numel() / size * bytes);
    }
    if (splits.size() != static_cast<size_t>(size))
        fail(std::string("all_to_all_single: needs one ") + which + " split size for each of the " +
             std::to_string(size) + " ranks");
    std::vector<uint64_t> lengths;
    for (int64_t split : splits) {
        if (split < 0)
            fail(std::string("all_to_all_single: a negative ") + which + " split size");
        sum += split;
        lengths.push_back(rows > 0 ? tensor.numel() / rows * split * bytes : 0);
    }
    if (sum != rows)
        fail(std::string("all_to_all_single: ") + which + " split sizes sum up to " +
             std::to_string(sum) + ", and its first dimension has " + std::to_string(rows));
    return lengths;
}

WorkPtr Backend::alltoall_base(at::Tensor &output, at::Tensor &input,
                               std::vector<int64_t> &output_splits,
                               std::vector<int64_t> &input_splits,
                               const c10d::AllToAllOptions &opts)
{
    const Operation &operation = group_->operations.all_to_all_base;
    check_tensor(operation.name, input);
    check_tensor(operation.name, output);
    check_like(operation.name, input, output);
    auto kind = moved_as(input);
    bool even = output_splits.empty() && input_splits.empty();
    if (even && input.numel() != output.numel())
        fail("all_to_all_single: input and output have " + std::to_string(input.numel()) +
             " and " + std::to_string(output.numel()) + " elements: pass split sizes");
    auto in_lengths = split_lengths("input", input, input_splits, group_->size, kind.bytes);
    auto out_lengths = split_lengths("output", output, output_splits, group_->size, kind.bytes);
    if (in_lengths[getRank()] != out_lengths[getRank()])
        fail("all_to_all_single: this rank sends itself another number of elements than it "
             "receives: check the split sizes");
    auto made = work(operation, {output}, opts.timeout, {input});
    note(made, input);
    made->lengths = std::move(in_lengths);
    made->others = std::move(out_lengths);
    at::NoGradGuard no_grad;
    at::Tensor in = input.detach().contiguous(), out = writable(made, output, false);
    made->keep.push_back(in);
    return start(made, opts, [&](wring_call *how, wring_request **request) {
        if (even)
            return wring_alltoall(group_->handle, in.data_ptr(), out.data_ptr(),
                                  made->lengths[0], kind.dtype, how, request);
        return wring_alltoallv(group_->handle, in.data_ptr(), made->lengths.data(),
                               out.data_ptr(), made->others.data(), kind.dtype, how, request);
    });
}

WorkPtr Backend::barrier(const c10d::BarrierOptions &opts)
{
    auto made = work(group_->operations.barrier, {}, opts.timeout, {});
    return start(made, opts, [&](wring_call *how, wring_request **request) {
        return wring_barrier(group_->handle, how, request);
    });
}

/* ---- messages ------------------------------------------------------------------------------- */

WorkPtr Backend::message(const Operation &operation, Tensors &tensors, int peer, int tag)
{
    at::Tensor &tensor = single(operation.name, tensors);
    bool any = operation.type == c10d::OpType::RECVANYSOURCE;
    bool sends = operation.type == c10d::OpType::SEND;
    if (!any)
        check_root(operation.name, peer, group_->size);
    auto made = work(operation, {tensor}, c10d::kUnsetTimeout, {tensor});
    note(made, tensor);
    made->peer = peer;
    at::NoGradGuard no_grad;
    at::Tensor data = sends ? tensor.detach().contiguous() : writable(made, tensor, false);
    made->keep.push_back(data);
    uint64_t name = static_cast<uint32_t>(tag);
    uint32_t member = any ? WRING_ANY_SOURCE : static_cast<uint32_t>(peer);
    return start(made, NoOptions(), [&](wring_call *how, wring_request **request) {
        return sends ? wring_send(group_->handle, data.data_ptr(), data.nbytes(), member, name, how,
                                  request)
                     : wring_recv(group_->handle, data.data_ptr(), data.nbytes(), member, name, how,
                                  request);
    });
}

WorkPtr Backend::send(Tensors &tensors, int to, int tag)
{
    return message(group_->operations.send, tensors, to, tag);
}

WorkPtr Backend::recv(Tensors &tensors, int from, int tag)
{
    return message(group_->operations.recv, tensors, from, tag);
}

WorkPtr Backend::recvAnysource(Tensors &tensors, int tag)
{
    return message(group_->operations.recv_any, tensors, -1, tag);
}

/** One byte to or from another rank. @return whether it went before the deadline */
bool Backend::pass_byte(bool send, uint32_t peer, uint64_t tag, Clock::time_point deadline)
{
    uint8_t byte = 0;
    wring_request *request;
    Inside inside(*group_->session);
    if (!inside.may || group_->shut)
        return false;
    wring_status status =
        send ? wring_send(group_->handle, &byte, 1, peer, tag, nullptr, &request)
             : wring_recv(group_->handle, &byte, 1, peer, tag, nullptr, &request);
    if (status != WRING_OK)
        return false;
    do {
        auto now = Clock::now();
        if (now >= deadline || group_->session->closing()) {
            wring_request_cancel(request);
            wring_request_wait(request, WRING_FOREVER, nullptr);
            return false;
        }
        auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - now).count();
        status = wring_request_wait(request, std::min<uint64_t>(left, SLICE_NS), nullptr);
    } while (status == WRING_ERR_TIMEOUT);
    return status == WRING_OK;
}

/** A rank other than 0: tell it that we are here, and wait until it lets us go. */
void Backend::answer_barrier(uint64_t tag, Clock::time_point deadline)
{
    if (pass_byte(true, 0, tag, deadline) && pass_byte(false, 0, tag, deadline))
        return;
    fail("Rank " + std::to_string(getRank()) + " successfully reached monitoredBarrier, but received "
         "errors while waiting for send/recv from rank 0: what that one says names the rank at fault");
}

void Backend::monitoredBarrier(const c10d::BarrierOptions &opts, bool wait_all)
{
    auto timeout = opts.timeout == c10d::kUnsetTimeout
                       ? Milliseconds(group_->timeout_ms.load())
                       : opts.timeout;
    uint64_t tag = INTERNAL_TAGS | barriers_++;
    auto deadline = Clock::now() + timeout;
    if (getRank() != 0) {
        answer_barrier(tag, deadline);
        return;
    }
    if (timeout.count() <= 0)
        fail("Rank 0 timed out in monitoredBarrier after " + std::to_string(timeout.count()) +
             " ms: give it a longer timeout");
    std::string missing;
    int n = 0;
    for (int rank = 1; rank < group_->size && (n == 0 || wait_all); rank++) {
        if (pass_byte(false, rank, tag, deadline))
            continue;
        missing += (n++ > 0 ? ", " : "") + std::to_string(rank);
    }
    if (n > 0)
        fail(std::string(n > 1 ? "Ranks " : "Rank ") + missing +
             " failed to pass monitoredBarrier in " + std::to_string(timeout.count()) + " ms");
    for (int rank = 1; rank < group_->size; rank++)
        if (!pass_byte(true, rank, tag, deadline))
            fail("Rank " + std::to_string(rank) + " failed to pass monitoredBarrier in " +
                 std::to_string(timeout.count()) + " ms");
}

/* ---- coalescing, split, memory -------------------------------------------------------------- */

void Backend::startCoalescing()
{
    coalescing_ = true;
    coalesced_.clear();
}

WorkPtr Backend::endCoalescing()
{
    coalescing_ = false;
    std::vector<WorkPtr> works;
    works.swap(coalesced_);
    return several(c10d::OpType::COALESCED, nullptr, {}, works.size(),
                   [&](size_t i) { return works[i]; });
}

/** Tells apart groups of the same ranks that are made at the same time. */
static uint64_t group_tag(const std::string &name)
{
    uint64_t tag = 0xCBF29CE484222325u; /* FNV-1a */
    for (unsigned char c : name)
        tag = (tag ^ c) * 0x100000001B3u;
    return tag;
}

static wring_group *make_group(Session &session, wring_group *parent,
                               const std::vector<uint32_t> &ranks, const std::string &name,
                               Milliseconds timeout)
{
    wring_group *made;
    Inside inside(session);
    if (!inside.may)
        fail("new_group: the default process group was destroyed: call init_process_group() again");
    wring_status status =
        wring_group_create(parent, ranks.data(), ranks.size(), group_tag(name),
                           uint64_t(timeout.count()) * 1'000'000, &made);
    if (status == WRING_OK)
        return made;
    std::string why = session.failure();
    fail("new_group " + name + ": " + (why.empty() ? "" : why + ": ") + wring_status_text(status));
}

c10::intrusive_ptr<c10d::Backend> Backend::split(const c10::intrusive_ptr<c10d::Store> &,
                                                 const std::vector<int> &ranks,
                                                 const c10::intrusive_ptr<Options> &opts)
{
    std::vector<uint32_t> members(ranks.begin(), ranks.end());
    auto me = std::find(ranks.begin(), ranks.end(), getRank());
    if (me == ranks.end())
        return nullptr;
    if (group_->shut)
        fail("split_group: the process group was destroyed: make another one");
    auto timeout = opts ? opts->timeout : Milliseconds(group_->timeout_ms.load());
    std::string name = opts ? opts->group_name : group_name_ + "/split";
    wring_group *made;
    without_gil([&] { made = make_group(*group_->session, group_->handle, members, name, timeout); });
    auto group = std::make_shared<Group>(group_->session, made, group_->name, false,
                                         static_cast<int>(me - ranks.begin()),
                                         static_cast<int>(ranks.size()), timeout);
    return c10::make_intrusive<Backend>(std::move(group), name);
}

/* ---- other ranks ---------------------------------------------------------------------------- */

/** What torch.distributed.shrink_group() calls, on all ranks that are left. */
c10::intrusive_ptr<c10d::Backend> Backend::shrink(const std::vector<int64_t> &excluded, int,
                                                  const c10::intrusive_ptr<Options> &opts)
{
    auto session = group_->session;
    if (!group_->is_world || group_->shut)
        fail("shrink_group: only a default group can lose ranks, before it is destroyed");
    int before = group_->size;
    shrinks(reinterpret_cast<uintptr_t>(session->handle()));
    int left = static_cast<int>(wring_session_size(session->handle()));
    if (left != before - static_cast<int>(excluded.size()))
        fail("shrink_group: " + std::to_string(left) + " of " + std::to_string(before) +
             " ranks are left, and ranks_to_exclude names " + std::to_string(excluded.size()) +
             ": name all that are lost, or call wring.torch.elastic.shrink(), which finds them");
    auto timeout = opts ? opts->timeout : Milliseconds(group_->timeout_ms.load());
    auto group = std::make_shared<Group>(
        session, wring_session_world(session->handle()), group_->name, true,
        static_cast<int>(wring_session_rank(session->handle())), left, timeout);
    return c10::make_intrusive<Backend>(std::move(group), group_name_);
}

#ifdef C10D_BACKEND_HAS_RECONFIGURE
c10d::ReconfigureHandle Backend::get_reconfigure_handle() const
{
    return names_door(group_name_);
}

static std::vector<std::string> ordered(const c10d::ReconfigureOptions &opts)
{
    if (auto *list = std::get_if<std::vector<std::string>>(&opts.handles))
        return *list;
    auto &set = std::get<std::unordered_set<std::string>>(opts.handles);
    std::vector<std::string> handles(set.begin(), set.end());
    std::sort(handles.begin(), handles.end());
    return handles;
}

/** The group becomes one of those whose handles these are. It is done when it returns. */
WorkPtr Backend::reconfigure(const c10d::ReconfigureOptions &opts)
{
    Milliseconds timeout(group_->timeout_ms.load());
    if (!group_->is_world)
        fail("reconfigure: only of a group that was made by init_process_group()");
    auto session = reopens(group_name_, ordered(opts), opts.uuid,
                           opts.timeout.value_or(timeout).count());
    auto *handle = session->handle();
    without_gil([this] { group_->shut_down(false); });
    rank_ = static_cast<int>(wring_session_rank(handle));
    size_ = static_cast<int>(wring_session_size(handle));
    group_ = std::make_shared<Group>(session, wring_session_world(handle), group_->name, true,
                                     rank_, size_, timeout);
    watch();
    return c10::make_intrusive<Works>(rank_, c10d::OpType::UNKNOWN, nullptr, std::nullopt);
}
#endif

at::Tensor Backend::allocateTensor(long size, at::TensorOptions options)
{
    if (!options.device().is_cpu())
        fail("allocate_tensor: only memory of the CPU");
    void *data;
    {
        Inside inside(*group_->session);
        size_t bytes = size * options.dtype().itemsize();
        if (!inside.may || wring_buffer_alloc(group_->session->handle(), bytes > 0 ? bytes : 1,
                                              &data) != WRING_OK)
            fail("allocate_tensor: no memory for " + std::to_string(size) + " elements");
    }
    auto session = group_->session;
    session->join(); /* it stays open while its memory is in use */
    return at::from_blob(
        data, {size},
        [session](void *memory) {
            without_gil([&] {
                {
                    Inside inside(*session);
                    if (inside.may)
                        wring_buffer_free(session->handle(), memory);
                }
                session->leave(false);
            });
        },
        options);
}

} // namespace wring_torch

/* ---- what Python calls ---------------------------------------------------------------------- */

using namespace wring_torch;

static c10::intrusive_ptr<c10d::Backend> make_backend(std::shared_ptr<Session> session,
                                                      const std::vector<uint32_t> &ranks, int rank,
                                                      const std::string &name,
                                                      const std::string &group_name,
                                                      int64_t timeout_ms)
{
    wring_group *world = wring_session_world(session->handle()), *handle = world;
    Milliseconds timeout(timeout_ms);
    bool is_world = ranks.empty();
    int size = is_world ? static_cast<int>(wring_session_size(session->handle()))
                        : static_cast<int>(ranks.size());
    if (!is_world)
        handle = make_group(*session, world, ranks, group_name, timeout);
    auto group = std::make_shared<Group>(std::move(session), handle, name, is_world, rank, size,
                                         timeout);
    return c10::make_intrusive<Backend>(std::move(group), group_name);
}

static uintptr_t group_pointer(const c10::intrusive_ptr<c10d::Backend> &backend)
{
    auto *ours = dynamic_cast<Backend *>(backend.get());
    return ours != nullptr ? reinterpret_cast<uintptr_t>(ours->handle()) : 0;
}

/** @return (enum wring_status, the handle from then on) */
template <Session::Change change>
static std::pair<int, uintptr_t> replace_by(Session &session, uint64_t timeout_ns)
{
    int status = session.replace(change, timeout_ns);
    return {status, reinterpret_cast<uintptr_t>(session.handle())};
}

/** A function of Python's, for as long as the process lives. */
static std::function<void(uintptr_t)> hook(pybind11::function function)
{
    auto *kept = new pybind11::function(std::move(function));
    return [kept](uintptr_t handle) {
        if (!Py_IsInitialized())
            return;
        pybind11::gil_scoped_acquire gil;
        try {
            (*kept)(handle);
        } catch (pybind11::error_already_set &error) {
            error.discard_as_unraisable("wring");
        }
    };
}

static void await_reconfigure(const c10::intrusive_ptr<c10d::Backend> &backend)
{
    if (auto *ours = dynamic_cast<Backend *>(backend.get()))
        ours->await_reconfigure();
}

/** The functions that make sessions, for as long as the process lives. */
static void set_makers(pybind11::object shrinks, pybind11::object names_door,
                       pybind11::object reopens)
{
    auto *kept = new std::array<pybind11::object, 3>{std::move(shrinks), std::move(names_door),
                                                     std::move(reopens)};
    Backend::shrinks = [kept](uintptr_t handle) {
        pybind11::gil_scoped_acquire gil;
        (*kept)[0](handle);
    };
    Backend::names_door = [kept](const std::string &group) {
        pybind11::gil_scoped_acquire gil;
        return (*kept)[1](group).cast<std::string>();
    };
    Backend::reopens = [kept](const std::string &group, const std::vector<std::string> &handles,
                              int64_t uuid, int64_t timeout_ms) {
        pybind11::gil_scoped_acquire gil;
        return (*kept)[2](group, handles, uuid, timeout_ms).cast<std::shared_ptr<Session>>();
    };
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module)
{
    pybind11::class_<Session, std::shared_ptr<Session>>(module, "Session")
        .def(pybind11::init<uintptr_t>())
        .def("close", &Session::close, pybind11::call_guard<pybind11::gil_scoped_release>())
        .def_property_readonly("closing", &Session::closing)
        .def("failure", &Session::failure, pybind11::call_guard<pybind11::gil_scoped_release>())
        .def("shrink", &replace_by<wring_session_shrink>,
             pybind11::call_guard<pybind11::gil_scoped_release>())
        .def("grow", &replace_by<wring_session_grow>,
             pybind11::call_guard<pybind11::gil_scoped_release>());
    module.def("make_backend", &make_backend,
               pybind11::call_guard<pybind11::gil_scoped_release>());
    module.def("group_pointer", &group_pointer);
    module.def("await_reconfigure", &await_reconfigure,
               pybind11::call_guard<pybind11::gil_scoped_release>());
    module.def("set_makers", &set_makers);
    module.def("set_hooks", [](pybind11::function farewell, pybind11::function closes) {
        Session::farewell = hook(std::move(farewell));
        Session::closes = hook(std::move(closes));
    });
    module.def(
        "drain",
        [](int64_t ms) { return Completer::own().drain(Milliseconds(ms)); },
        pybind11::call_guard<pybind11::gil_scoped_release>());
}
