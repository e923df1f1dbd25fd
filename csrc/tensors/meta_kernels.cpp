/* The rules in C++ by which PyTorch finds what operators give, from the metadata of their arguments alone. The same code lays out
 * results when the operators run. PyTorch puts rules in Python in their place, which also take symbolic sizes and need fifty times
 * as long; here each of those in C++ becomes an operator under a name of our own, `shapetracer_meta::add.Tensor`. */
#include <string>
#include <string_view>

#include <ATen/EmptyTensor.h>
#include <ATen/MetaFunctions.h>
#include <ATen/Operators.h>
#include <ATen/ScalarOps.h>
#include <ATen/TensorIterator.h>
#include <torch/library.h>

namespace {

/* name.overload(...) -> ... */
template <class Operator>
std::string
schema_of()
{
    std::string_view text = Operator::schema_str; /* in some versions with the namespace */
    std::string_view space = "aten::";
    return std::string(text.substr(0, space.size()) == space ? text.substr(space.size()) : text);
}

template <class Operator, class Rule>
void
define_by(torch::Library &library, Rule *rule)
{
    std::string schema = schema_of<Operator>();
    library.def(schema.c_str());
    library.impl(schema.substr(0, schema.find('(')).c_str(), torch::dispatch(c10::DispatchKey::Meta, rule));
}

template <class Operator>
void
define(torch::Library &library, typename Operator::schema *rule)
{
    define_by<Operator>(library, rule);
}

/* A rule whose second argument may be a number. It becomes what operators take in place of a tensor: one that counts less where
 * the dtype of the result is found. */
template <class Operator, typename Operator::schema *rule>
void
with_number(const c10::OperatorHandle &handle, c10::DispatchKeySet keys, torch::jit::Stack *stack)
{
    static const c10::KernelFunction kernel = c10::KernelFunction::makeFromUnboxedRuntimeFunction(rule);
    c10::IValue &second = torch::jit::peek(*stack, 1, handle.schema().arguments().size());
    if (second.isScalar()) {
        second = at::native::wrapped_scalar_tensor(second.toScalar());
    }
    kernel.callBoxed(handle, keys, stack);
}

template <class Operator, typename Operator::schema *rule>
void
define_with_number(torch::Library &library)
{
    std::string schema = schema_of<Operator>(), tensor = "Tensor other";
    schema.replace(schema.find(tensor), tensor.size(), "Any other");
    library.def(schema.c_str());
    library.impl(
        schema.substr(0, schema.find('(')).c_str(),
        torch::dispatch(c10::DispatchKey::Meta, torch::CppFunction::makeFromBoxedFunction<&with_number<Operator, rule>>()));
}

/* What PyTorch has no whole rule in C++ for. The results lie as its kernels lay them out, on CPUs and GPUs alike; anything that is not
 * plain is refused. */

at::Tensor
contiguous(at::IntArrayRef sizes, at::ScalarType type)
{
    return at::detail::empty_meta(sizes, type);
}

at::Tensor
rule_of_embedding(const at::Tensor &weight, const at::Tensor &indices, int64_t, bool, bool)
{
    TORCH_CHECK(weight.dim() == 2 && (indices.scalar_type() == at::kLong || indices.scalar_type() == at::kInt));
    c10::DimVector sizes(indices.sizes());
    sizes.push_back(weight.size(1));
    return contiguous(sizes, weight.scalar_type());
}

at::Tensor
rule_of_gelu(const at::Tensor &self, std::string_view approximate)
{
    TORCH_CHECK(approximate == "none" || approximate == "tanh"); /* the rule does not look */
    return at::meta::gelu(self, approximate);
}

at::Tensor
rule_of_index(const at::Tensor &self, const c10::List<std::optional<at::Tensor>> &indices)
{
    for (const std::optional<at::Tensor> &index : indices) {
        TORCH_CHECK(!index || !index->defined() || index->scalar_type() == at::kLong || index->scalar_type() == at::kInt);
    }
    return at::meta::index(self, indices);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor>
rule_of_layer_norm(const at::Tensor &input, at::IntArrayRef normalized, const std::optional<at::Tensor> &weight,
                   const std::optional<at::Tensor> &bias, double)
{
    at::ScalarType type = input.scalar_type();
    int64_t kept = input.dim() - (int64_t)normalized.size();
    TORCH_CHECK(type == at::kFloat || type == at::kDouble);
    TORCH_CHECK(!normalized.empty() && kept >= 0 && input.sizes().slice(kept) == normalized);
    for (const std::optional<at::Tensor> &each : {weight, bias}) {
        TORCH_CHECK(!each || !each->defined() || (each->scalar_type() == type && each->sizes() == normalized));
    }
    c10::DimVector statistics(input.sizes().begin(), input.sizes().begin() + kept);
    statistics.resize(input.dim(), 1);
    return {contiguous(input.sizes(), type), contiguous(statistics, type), contiguous(statistics, type)};
}

at::Tensor
rule_of_where(const at::Tensor &condition, const at::Tensor &self, const at::Tensor &other)
{
    TORCH_CHECK(condition.scalar_type() == at::kBool && self.scalar_type() == other.scalar_type());
    at::TensorIteratorConfig config;
    at::TensorIterator iterator = config.check_all_same_dtype(false)
                                      .declare_static_dtype_and_device(self.scalar_type(), at::kMeta)
                                      .add_owned_output(at::Tensor())
                                      .add_const_input(condition)
                                      .add_const_input(self)
                                      .add_const_input(other)
                                      .build();
    return iterator.output();
}

} // namespace

/* RULE(name of the operator's class, function): the function is overloaded, and the class has its type. */
#define RULE(operator_, function) define<at::_ops::operator_>(m, &at::meta::function);
#define ALONE(function) RULE(function, function)
#define WITH_OTHER(operator_, function) define_with_number<at::_ops::operator_, &at::meta::function>(m);
#define OF_TENSORS(function) WITH_OTHER(function##_Tensor, function)
#define COMPARISON(function) OF_TENSORS(function) RULE(function##_Scalar, function)

/* clang-format off */
TORCH_LIBRARY(shapetracer_meta, m)
{
    /* elementwise, of one tensor */
    ALONE(acos) ALONE(acosh) ALONE(asin) ALONE(asinh) ALONE(atan) ALONE(atanh) ALONE(bitwise_not) ALONE(ceil) ALONE(clamp)
    ALONE(clamp_max) ALONE(clamp_min) ALONE(cos) ALONE(cosh) ALONE(digamma) ALONE(elu) ALONE(erf) ALONE(erfc) ALONE(erfinv)
    ALONE(exp) ALONE(exp2) ALONE(expm1) ALONE(floor) ALONE(frac) ALONE(hardshrink) ALONE(hardsigmoid)
    ALONE(leaky_relu) ALONE(lgamma) ALONE(log) ALONE(log10) ALONE(log1p) ALONE(log2) ALONE(mish) ALONE(neg) ALONE(reciprocal)
    ALONE(round) ALONE(rsqrt) ALONE(sgn) ALONE(sigmoid) ALONE(sign) ALONE(signbit) ALONE(silu) ALONE(sin) ALONE(sinc) ALONE(sinh)
    ALONE(softplus) ALONE(softshrink) ALONE(sqrt) ALONE(tan) ALONE(tanh) ALONE(threshold) ALONE(trunc)
    RULE(pow_Tensor_Scalar, pow) RULE(lerp_Scalar, lerp)

    /* elementwise, of several */
    OF_TENSORS(add) OF_TENSORS(sub) OF_TENSORS(mul) OF_TENSORS(div) OF_TENSORS(fmod) OF_TENSORS(remainder) OF_TENSORS(copysign)
    OF_TENSORS(bitwise_and) OF_TENSORS(bitwise_or) OF_TENSORS(bitwise_xor) OF_TENSORS(bitwise_left_shift)
    OF_TENSORS(bitwise_right_shift) OF_TENSORS(xlogy) WITH_OTHER(div_Tensor_mode, div)
    RULE(clamp_Tensor, clamp) RULE(clamp_max_Tensor, clamp_max) RULE(clamp_min_Tensor, clamp_min) RULE(lerp_Tensor, lerp)
    RULE(pow_Tensor_Tensor, pow) RULE(pow_Scalar, pow)
    ALONE(addcdiv) ALONE(addcmul) ALONE(atan2) ALONE(fmax) ALONE(fmin) ALONE(heaviside) ALONE(hypot) ALONE(logaddexp)
    ALONE(maximum) ALONE(minimum) ALONE(sigmoid_backward) ALONE(silu_backward) ALONE(tanh_backward)
    ALONE(threshold_backward)
    COMPARISON(eq) COMPARISON(ne) COMPARISON(lt) COMPARISON(le) COMPARISON(gt) COMPARISON(ge)

    /* along dims */
    ALONE(_log_softmax) ALONE(_softmax) ALONE(all) ALONE(amax) ALONE(amin) ALONE(any) ALONE(argmax) ALONE(argmin) ALONE(cat)
    ALONE(cumprod) ALONE(cumsum) RULE(all_dim, all) RULE(any_dim, any) RULE(mean_dim, mean) RULE(sum_dim_IntList, sum)
    RULE(sort_stable, sort)

    /* products of matrices, and what goes by indices */
    ALONE(addmm) ALONE(addmv) ALONE(baddbmm) ALONE(bmm) ALONE(mm) ALONE(gather) ALONE(scatter_add) ALONE(index_add)
    RULE(scatter_src, scatter) RULE(scatter_value, scatter)

    define_by<at::_ops::embedding>(m, rule_of_embedding);
    define_by<at::_ops::gelu>(m, rule_of_gelu);
    define_by<at::_ops::index_Tensor>(m, rule_of_index);
    define_by<at::_ops::native_layer_norm>(m, rule_of_layer_norm);
    define_by<at::_ops::where_self>(m, rule_of_where);
}
/* clang-format on */
