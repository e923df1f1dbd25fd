/* Where torch keeps its settings of a thread. The addresses are asked for once per thread, for they stay as long as it lives.
 * For files with torch's headers. */
#ifndef TRACER_THREAD_PLACES_H
#define TRACER_THREAD_PLACES_H

#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include "tensors/opened.h"

namespace tracer {

/* Torch gives these only through functions of its library, each of which looks up the thread's data anew. */
using FunctionStack = std::vector<std::shared_ptr<c10::SafePyObject>>;
using DispatchStack = std::vector<std::shared_ptr<c10::impl::PyObject_TorchDispatchMode>>;
using InfraModes = std::array<std::optional<std::shared_ptr<c10::impl::PyObject_TorchDispatchMode>>,
                              static_cast<size_t>(c10::impl::TorchDispatchModeKey::NUM_MODE_KEYS)>;

TRACER_OPEN(DisabledMember, at::impl::PythonTorchFunctionTLS, at::impl::TorchFunctionDisabledState, disabled_state_)
TRACER_OPEN(FunctionStackMember, at::impl::PythonTorchFunctionTLS, FunctionStack, stack_)
TRACER_OPEN(DispatchStackMember, c10::impl::TorchDispatchModeTLS, DispatchStack, stack_)
TRACER_OPEN(InfraModesMember, c10::impl::TorchDispatchModeTLS, InfraModes, infra_modes_)

class ThreadPlaces {
  public:
    static const ThreadPlaces &here()
    {
        static thread_local ThreadPlaces places;
        if (C10_UNLIKELY(places.autograd_ == nullptr)) {
            places.find();
        }
        return places;
    }

    const c10::AutogradState &autograd() const { return *autograd_; }

    c10::impl::LocalDispatchKeySet keys() const { return *keys_; }

    at::impl::TorchFunctionDisabledState functions_disabled() const { return functions_->*opened(DisabledMember()); }

    size_t function_mode_count() const { return (functions_->*opened(FunctionStackMember())).size(); }

    size_t dispatch_mode_count() const
    {
        size_t count = (dispatch_->*opened(DispatchStackMember())).size();
        for (const auto &mode : dispatch_->*opened(InfraModesMember())) {
            count += mode.has_value();
        }
        return count;
    }

  private:
    constexpr ThreadPlaces() = default; /* nothing runs when a thread meets it first */

    void find()
    {
        keys_ = &c10::impl::raw_local_dispatch_key_set;
        functions_ = &at::impl::PythonTorchFunctionTLS::get_state();
        dispatch_ = &c10::impl::TorchDispatchModeTLS::get_state();
        autograd_ = &c10::AutogradState::get_tls_state();
    }

    const c10::AutogradState *autograd_ = nullptr;
    const c10::impl::PODLocalDispatchKeySet *keys_ = nullptr;
    const at::impl::PythonTorchFunctionTLS *functions_ = nullptr;
    const c10::impl::TorchDispatchModeTLS *dispatch_ = nullptr;
};

} // namespace tracer

#endif
