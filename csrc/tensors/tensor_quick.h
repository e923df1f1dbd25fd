/* What most tensors must be, in few bytes, and compared in few instructions. For files with torch's headers. */
#ifndef TRACER_TENSOR_QUICK_H
#define TRACER_TENSOR_QUICK_H

#include <memory>

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include "tensors/tensor_image.h"

namespace tracer {

TRACER_OPEN(AutogradMember, c10::TensorImpl, std::unique_ptr<c10::AutogradMetaInterface>, autograd_meta_)

/* The specs of a TensorMatch. Those that are equal share their bytes, so that many of them stay in the nearest cache. */
class QuickSpecs {
  public:
    explicit QuickSpecs(const std::vector<Spec> &specs)
    {
        for (const Spec &spec : specs) {
            kind_of_.push_back(kind(spec));
        }
    }

    /* As compare(), for most tensors; false says nothing. */
    bool matches(size_t index, PyObject *object, const ThreadKeys &keys) const
    {
        const Kind &kind = kinds_[kind_of_[index]];
        if (Py_TYPE(object) != kind.cls) {
            return false;
        }
        const c10::TensorImpl *impl = THPVariable_Unpack(object).unsafeGetTensorImpl();
        /* What takes longest to reach is asked for first. */
        return requires_grad(impl) == kind.requires_grad && kind.image.is_of(impl, keys);
    }

  private:
    struct Kind {
        PyTypeObject *cls; /* nullptr, of no tensor, where the spec can be compared in the other way alone */
        bool requires_grad;
        TensorImage image;

        bool operator==(const Kind &other) const = default;
    };

    static constexpr size_t kLookedBack = 8;

    /* The index of a spec's kind, which may be there already. */
    uint32_t kind(const Spec &spec)
    {
        const bool is_quick = spec.has_grad && TensorImage::is_possible(spec);
        const Kind made = is_quick ? Kind{spec.cls, spec.requires_grad, TensorImage(spec)} : Kind{};
        for (size_t i = kinds_.size(); i-- > 0 && i + kLookedBack >= kinds_.size();) {
            if (kinds_[i] == made) {
                return static_cast<uint32_t>(i);
            }
        }
        kinds_.push_back(made);
        return static_cast<uint32_t>(kinds_.size() - 1);
    }

    /* As TensorImpl::requires_grad(): torch makes no other metadata. */
    static bool requires_grad(const c10::TensorImpl *impl)
    {
        const auto *meta = static_cast<const torch::autograd::AutogradMeta *>((impl->*opened(AutogradMember())).get());
        return meta != nullptr && (meta->requires_grad_ || meta->grad_fn_);
    }

    std::vector<Kind> kinds_;
    std::vector<uint32_t> kind_of_;
};

} // namespace tracer

#endif
