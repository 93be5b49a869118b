/* SPDX-License-Identifier: Apache-2.0 */
/** What torch's tensors, types and operations are for the library. */
#ifndef WRING_TORCH_TENSORS_HPP
#define WRING_TORCH_TENSORS_HPP

#include <optional>

#include "session.hpp"

namespace wring_torch {

inline std::optional<wring_dtype> dtype_of(at::ScalarType type)
{
    switch (type) {
    case at::kFloat: return WRING_F32;
    case at::kDouble: return WRING_F64;
    case at::kHalf: return WRING_F16;
    case at::kBFloat16: return WRING_BF16;
    case at::kInt: return WRING_I32;
    case at::kLong: return WRING_I64;
    case at::kChar: return WRING_I8;
    case at::kShort: return WRING_I16;
    case at::kByte: return WRING_U8;
    case at::kUInt16: return WRING_U16;
    case at::kUInt32: return WRING_U32;
    case at::kUInt64: return WRING_U64;
    case at::kBool: return WRING_BOOL;
    case at::kComplexFloat: return WRING_COMPLEX64;
    case at::kComplexDouble: return WRING_COMPLEX128;
    default: return std::nullopt;
    }
}

/** Elements as the library counts them where it only moves them: types it lacks are bytes. */
struct Elements {
    wring_dtype dtype;
    uint64_t bytes; /* of the tensor's one element, in elements of that type */
};

inline Elements moved_as(const at::Tensor &tensor)
{
    auto dtype = dtype_of(tensor.scalar_type());
    if (dtype)
        return {*dtype, 1};
    return {WRING_BYTE, static_cast<uint64_t>(tensor.element_size())};
}

/** One clear line for tensors that no operation takes. */
inline void check_tensor(const char *operation, const at::Tensor &tensor)
{
    std::string name = operation;
    if (!tensor.defined())
        fail(name + ": a tensor is None: pass one");
    if (tensor.layout() != at::kStrided)
        fail(name + ": a sparse tensor: pass tensor.to_dense()");
    if (tensor.is_quantized())
        fail(name + ": a quantized tensor: pass tensor.int_repr() or tensor.dequantize()");
    if (!tensor.device().is_cpu())
        fail(name + ": a tensor on " + tensor.device().str() +
             ": this version of wring works on tensors of the CPU: pass tensor.cpu(), or let another "
             "backend take that device: init_process_group(\"cpu:wring," +
             std::string(c10::DeviceTypeName(tensor.device().type(), true)) + ":nccl\")");
}

/** The one tensor of a call. */
inline at::Tensor &single(const char *operation, std::vector<at::Tensor> &tensors)
{
    if (tensors.size() != 1)
        fail(std::string(operation) + ": takes one tensor of each rank, not " +
             std::to_string(tensors.size()));
    check_tensor(operation, tensors[0]);
    return tensors[0];
}

inline void check_root(const char *operation, int64_t root, int size)
{
    if (root < 0 || root >= size)
        fail(std::string(operation) + ": rank " + std::to_string(root) + " is not in the group of " +
             std::to_string(size));
}

inline void check_like(const char *operation, const at::Tensor &one, const at::Tensor &other)
{
    if (one.scalar_type() != other.scalar_type())
        fail(std::string(operation) + ": tensors of " + c10::toString(one.scalar_type()) + " and " +
             c10::toString(other.scalar_type()) + ": give them the same type");
}

/** A reduction as the library knows it. */
struct Reduction {
    wring_op op;
    double factor;
};

inline Reduction reduction_of(const char *operation, const c10d::ReduceOp &op, at::ScalarType type)
{
    using Op = c10d::ReduceOp;
    auto dtype = dtype_of(type);
    bool truth = type == at::kBool;
    Reduction reduction{WRING_SUM, 0};
    const char *name = "SUM";
    switch (op.op_) {
    case Op::SUM: reduction.op = truth ? WRING_LOR : WRING_SUM; break;
    case Op::AVG: reduction.op = WRING_AVG, name = "AVG"; break;
    case Op::PRODUCT: reduction.op = truth ? WRING_LAND : WRING_PROD, name = "PRODUCT"; break;
    case Op::MIN: reduction.op = WRING_MIN, name = "MIN"; break;
    case Op::MAX: reduction.op = WRING_MAX, name = "MAX"; break;
    case Op::BAND: reduction.op = WRING_BAND, name = "BAND"; break;
    case Op::BOR: reduction.op = WRING_BOR, name = "BOR"; break;
    case Op::BXOR: reduction.op = WRING_BXOR, name = "BXOR"; break;
    case Op::PREMUL_SUM: {
        auto *more = dynamic_cast<c10d::NCCLPreMulSumSupplement *>(op.supplement_.get());
        if (more == nullptr)
            fail(std::string(operation) + ": PREMUL_SUM has no factor");
        name = "PREMUL_SUM";
        reduction.op = WRING_PREMUL_SUM;
        reduction.factor = more->tensor_factor.defined() ? more->tensor_factor.item<double>()
                                                         : more->double_factor;
        break;
    }
    default: fail(std::string(operation) + ": an unknown reduction");
    }
    if (!dtype || !wring_op_takes(reduction.op, *dtype))
        fail(std::string(operation) + ": there is no " + name + " of " + c10::toString(type) +
             ": convert the tensor, as to float32");
    return reduction;
}

inline std::vector<int64_t> flat_shape(const at::Tensor &tensor, int64_t n)
{
    return {tensor.numel() * n};
}

/** The first of tensors that follow each other in memory, as views of one; NULL: they do not. */
inline const at::Tensor *follow(const std::vector<at::Tensor> &tensors)
{
    const at::Tensor *first = nullptr;
    const char *next = nullptr;
    for (auto &tensor : tensors) {
        if (!tensor.is_contiguous())
            return nullptr;
        if (tensor.numel() == 0)
            continue;
        auto *data = static_cast<const char *>(tensor.data_ptr());
        if (first != nullptr && data != next)
            return nullptr;
        first = first != nullptr ? first : &tensor;
        next = data + tensor.nbytes();
    }
    return first != nullptr || tensors.empty() ? first : &tensors[0];
}

/** Memory of `elems` elements like those of a tensor. */
inline at::Tensor memory_like(const at::Tensor &tensor, int64_t elems)
{
    return at::empty({elems}, tensor.options().memory_format(c10::nullopt).requires_grad(false));
}

/** Tensors one after the other, copied unless they lie so. */
inline at::Tensor joined(const at::Tensor &like, const std::vector<at::Tensor> &tensors)
{
    if (auto *first = follow(tensors))
        return *first;
    int64_t elems = 0;
    for (auto &tensor : tensors)
        elems += tensor.numel();
    at::NoGradGuard no_grad;
    at::Tensor flat = memory_like(like, elems);
    int64_t at = 0;
    for (auto &tensor : tensors) {
        flat.narrow(0, at, tensor.numel()).copy_(tensor.detach().reshape({-1}));
        at += tensor.numel();
    }
    return flat;
}

/** The reverse. */
inline void part(const at::Tensor &flat, std::vector<at::Tensor> &tensors)
{
    int64_t at = 0;
    for (auto &tensor : tensors) {
        tensor.copy_(flat.narrow(0, at, tensor.numel()).view(tensor.sizes()));
        at += tensor.numel();
    }
}

} // namespace wring_torch

#endif
