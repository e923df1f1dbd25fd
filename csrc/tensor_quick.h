/* What most tensors must be, in few bytes, and compared in few instructions. For files with torch's headers. */
#ifndef TRACER_TENSOR_QUICK_H
#define TRACER_TENSOR_QUICK_H

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include "opened.h"
#include "tensor_spec.h"

namespace tracer {

TRACER_OPEN(AutogradMember, c10::TensorImpl, std::unique_ptr<c10::AutogradMetaInterface>, autograd_meta_)
TRACER_OPEN(DeviceMember, c10::TensorImpl, std::optional<c10::Device>, device_opt_)
TRACER_OPEN(ShapeMember, c10::TensorImpl, c10::impl::SizesAndStrides, sizes_and_strides_)

/* Bit-fields have no pointers to members. */
struct TensorPolicies : c10::TensorImpl {
    /* Whether sizes, strides and device are what lies in the tensor, and no method of a subclass says otherwise. */
    static bool
    are_plain(const c10::TensorImpl *impl)
    {
        const TensorPolicies *self = static_cast<const TensorPolicies *>(impl);
        return self->sizes_strides_policy_ == 0 && !self->device_policy_ && !self->has_symbolic_sizes_strides_;
    }
};

/* effective_keys() as two operations. */
class ThreadKeys {
  public:
    explicit ThreadKeys(const c10::impl::LocalDispatchKeySet &local)
        : included_(local.included_.raw_repr()),
          kept_((c10::DispatchKeySet(c10::DispatchKeySet::RAW, ~uint64_t{0}) - local.excluded_).raw_repr())
    {
    }

    uint64_t
    of(const c10::TensorImpl *impl) const
    {
        return (impl->key_set().raw_repr() | included_) & kept_;
    }

  private:
    uint64_t included_, kept_;
};

/* The specs of a TensorMatch. Those that are equal share their bytes, so that many of them stay in the nearest cache. */
class QuickSpecs {
  public:
    explicit QuickSpecs(const std::vector<Spec> &specs)
    {
        for (const Spec &spec : specs) {
            if (!spec.has_keys || !spec.has_dtype || !spec.has_device || !spec.has_grad || !spec.has_sizes
                || !spec.has_strides) {
                break;
            }
            kind_of_.push_back(kind(spec));
        }
    }

    /* How many tensors, from the first on, match; the next one has to be compared in another way. */
    size_t
    count_matching(PyObject *const *tensors, const c10::impl::LocalDispatchKeySet &local) const
    {
        const ThreadKeys keys(local);
        const Kind *kinds = kinds_.data();
        const int64_t *dims = dims_.data();
        const size_t count = kind_of_.size();
        size_t i = 0;
        while (i < count && matches(kinds[kind_of_[i]], dims, tensors[i], keys)) {
            i++;
        }
        return i;
    }

  private:
    /* Its sizes and strides stand in pairs in `dims_`. */
    struct Kind {
        PyTypeObject *cls;
        uint64_t keys;
        caffe2::TypeMeta dtype;
        std::optional<c10::Device> device;
        bool requires_grad;
        uint32_t dim_count, first_dim;
    };

    enum { kLookedBack = 8 };

    uint32_t
    kind(const Spec &spec)
    {
        std::vector<int64_t> dims;
        for (size_t i = 0; i < spec.sizes.size(); i++) {
            dims.insert(dims.end(), {spec.sizes[i], spec.strides[i]});
        }
        Kind made = {spec.cls,
                     spec.keys,
                     c10::scalarTypeToTypeMeta(spec.dtype),
                     c10::Device(spec.device_type, static_cast<c10::DeviceIndex>(spec.device_index)),
                     spec.requires_grad,
                     static_cast<uint32_t>(spec.sizes.size()),
                     static_cast<uint32_t>(dims_.size())};
        for (size_t back = 1; back <= kLookedBack && back <= kinds_.size(); back++) {
            if (same(kinds_[kinds_.size() - back], made, dims)) {
                return static_cast<uint32_t>(kinds_.size() - back);
            }
        }
        dims_.insert(dims_.end(), dims.begin(), dims.end());
        kinds_.push_back(made);
        return static_cast<uint32_t>(kinds_.size() - 1);
    }

    bool
    same(const Kind &known, const Kind &made, const std::vector<int64_t> &dims) const
    {
        return known.cls == made.cls && known.keys == made.keys && known.dtype == made.dtype && known.device == made.device
               && known.requires_grad == made.requires_grad && known.dim_count == made.dim_count
               && std::equal(dims.begin(), dims.end(), dims_.begin() + known.first_dim);
    }

    static bool
    is_dim(int64_t expected, int64_t seen)
    {
        return expected == seen || expected == kOpen;
    }

    static bool
    same_dims(const int64_t *expected, const c10::impl::SizesAndStrides &seen)
    {
        const int64_t *sizes = seen.sizes_data(), *strides = seen.strides_data();
        for (size_t i = 0, count = seen.size(); i < count; i++) {
            if (!is_dim(expected[2 * i], sizes[i]) || !is_dim(expected[2 * i + 1], strides[i])) {
                return false;
            }
        }
        return true;
    }

    /* As TensorImpl::requires_grad(): torch makes no other metadata. */
    static bool
    requires_grad(const c10::TensorImpl *impl)
    {
        const auto *meta = static_cast<const torch::autograd::AutogradMeta *>((impl->*opened(AutogradMember())).get());
        return meta != nullptr && (meta->requires_grad_ || meta->grad_fn_);
    }

    /* As compare(), for most tensors; false says nothing. A tensor that is not defined has no device. */
    static bool
    matches(const Kind &kind, const int64_t *dims, PyObject *object, const ThreadKeys &keys)
    {
        if (Py_TYPE(object) != kind.cls) {
            return false;
        }
        const c10::TensorImpl *impl = THPVariable_Unpack(object).unsafeGetTensorImpl();
        const c10::impl::SizesAndStrides &shape = impl->*opened(ShapeMember());
        /* What takes longest to reach is asked for first. */
        return requires_grad(impl) == kind.requires_grad && keys.of(impl) == kind.keys && impl->dtype() == kind.dtype
               && impl->*opened(DeviceMember()) == kind.device && TensorPolicies::are_plain(impl)
               && shape.size() == kind.dim_count && same_dims(dims + kind.first_dim, shape);
    }

    std::vector<Kind> kinds_;
    std::vector<uint32_t> kind_of_;
    std::vector<int64_t> dims_;
};

} // namespace tracer

#endif
