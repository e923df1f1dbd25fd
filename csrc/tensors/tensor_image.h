/* What lies in a tensor, compared two words at a time and without a branch for each field. For files with torch's headers. */
#ifndef TRACER_TENSOR_IMAGE_H
#define TRACER_TENSOR_IMAGE_H

#include <array>
#include <cstring>
#include <optional>

#include "tensors/opened.h"
#include "tensors/tensor_spec.h"

namespace tracer {

TRACER_OPEN(DtypeMember, c10::TensorImpl, caffe2::TypeMeta, data_type_)
TRACER_OPEN(DeviceMember, c10::TensorImpl, std::optional<c10::Device>, device_opt_)
TRACER_OPEN(KeysMember, c10::TensorImpl, c10::DispatchKeySet, key_set_)
TRACER_OPEN(ShapeMember, c10::TensorImpl, c10::impl::SizesAndStrides, sizes_and_strides_)

using Words = std::array<uint64_t, 2>;
using WordPair = uint64_t __attribute__((vector_size(sizeof(Words))));

inline WordPair
load_pair(const void *words)
{
    WordPair pair;
    memcpy(&pair, words, sizeof(pair));
    return pair;
}

/* effective_keys() as two operations, on a word that comes with that of the keys. */
struct ThreadKeys {
    explicit ThreadKeys(const c10::impl::LocalDispatchKeySet &local)
        : included{0, local.included_.raw_repr()},
          kept{~uint64_t{0}, (c10::DispatchKeySet(c10::DispatchKeySet::RAW, ~uint64_t{0}) - local.excluded_).raw_repr()}
    {
    }

    WordPair included, kept;
};

/* Two words, of which the bits in `mask` matter. */
struct Piece {
    alignas(WordPair) Words mask{}, expected{};

    /* Zero where nothing that matters differs. */
    WordPair difference(WordPair seen) const { return (seen & load_pair(&mask)) ^ load_pair(&expected); }

    bool operator==(const Piece &other) const = default;
};

/* The two words that begin with a tensor's dtype and end with its dispatch keys. Between them lie its device, and bits that say
 * whether sizes, strides and device are what lies in the tensor, and no method of a subclass says otherwise. */
class StateWords {
  public:
    static const void *of(const c10::TensorImpl *impl) { return &(impl->*opened(DtypeMember())); }

    /* Whether this torch has them as they are described here. */
    static bool are_known()
    {
        const Sample sample(at::kFloat, at::kCPU);
        const size_t device = place(sample, &(sample.*opened(DeviceMember())));
        return place(sample, &(sample.*opened(KeysMember()))) == sizeof(uint64_t)
               && device + sizeof(std::optional<c10::Device>) <= sizeof(uint64_t);
    }

    static Piece piece(const Spec &spec)
    {
        Sample sample(spec.dtype, c10::Device(spec.device_type, static_cast<c10::DeviceIndex>(spec.device_index)));
        const Words plain = words(sample);
        sample.be_odd();
        const Words odd = words(sample);
        Piece piece{{plain[0] ^ odd[0], ~uint64_t{0}}, {0, spec.keys}};
        char *mask = reinterpret_cast<char *>(&piece.mask);
        memset(mask, 0xff, sizeof(caffe2::TypeMeta));
        memset(mask + place(sample, &(sample.*opened(DeviceMember()))), 0xff, sizeof(std::optional<c10::Device>));
        piece.expected[0] = plain[0] & piece.mask[0];
        return piece;
    }

  private:
    struct Sample : c10::TensorImpl {
        Sample(at::ScalarType dtype, c10::Device device)
            : TensorImpl(c10::DispatchKeySet(), c10::scalarTypeToTypeMeta(dtype), device)
        {
        }

        /* Bit-fields have no pointers to members. */
        void be_odd()
        {
            sizes_strides_policy_ = 3;
            device_policy_ = true;
            has_symbolic_sizes_strides_ = true;
        }
    };

    static size_t place(const Sample &sample, const void *member)
    {
        return static_cast<size_t>(static_cast<const char *>(member) - static_cast<const char *>(of(&sample)));
    }

    static Words words(const Sample &sample)
    {
        Words words;
        memcpy(&words, of(&sample), sizeof(words));
        return words;
    }
};

/* Sizes and strides, where there are so few that they lie in the tensor. Open ones do not matter. */
class ShapeWords {
  public:
    static constexpr size_t kMostDims = C10_SIZES_AND_STRIDES_MAX_INLINE_SIZE;
    /* The number of dims and the first size, the first two strides, the next two sizes, and so on. */
    static constexpr std::array<size_t, 6> kPlaces = {0, 6, 2, 8, 4, 9};

    static const uint64_t *of(const c10::TensorImpl *impl)
    {
        return reinterpret_cast<const uint64_t *>(&(impl->*opened(ShapeMember())));
    }

    /* Those at kPlaces. */
    static std::array<Piece, kPlaces.size()> pieces(const Spec &spec)
    {
        c10::impl::SizesAndStrides shape;
        std::array<uint64_t, kCount> mask{}, expected{};
        auto place = [&](const int64_t &dim) { return &dim - reinterpret_cast<const int64_t *>(&shape); };
        auto set = [&](int64_t &dim, int64_t value) {
            dim = value;
            mask[place(dim)] = value == kOpen ? 0 : ~uint64_t{0};
        };
        mask[0] = ~uint64_t{0};
        shape.resize(spec.sizes.size());
        for (size_t i = 0; i < spec.sizes.size(); i++) {
            set(shape.size_at_unchecked(i), spec.sizes[i]);
            set(shape.stride_at_unchecked(i), spec.strides[i]);
        }
        memcpy(&expected, &shape, sizeof(shape));
        std::array<Piece, kPlaces.size()> pieces;
        for (size_t i = 0; i < kPlaces.size(); i++) {
            for (size_t j = 0; j < 2; j++) {
                pieces[i].mask[j] = mask[kPlaces[i] + j];
                pieces[i].expected[j] = expected[kPlaces[i] + j] & pieces[i].mask[j];
            }
        }
        return pieces;
    }

  private:
    static constexpr size_t kCount = 1 + 2 * kMostDims;
    static_assert(sizeof(c10::impl::SizesAndStrides) == kCount * sizeof(uint64_t));
};

/* What the implementation of a tensor must be, but for what autograd knows of it. */
class TensorImage {
  public:
    static bool is_possible(const Spec &spec)
    {
        static const bool known = StateWords::are_known();
        return known && spec.has_keys && spec.has_dtype && spec.has_device && spec.has_sizes && spec.has_strides
               && spec.sizes.size() <= ShapeWords::kMostDims;
    }

    TensorImage() = default;

    explicit TensorImage(const Spec &spec) : state_(StateWords::piece(spec)), shape_(ShapeWords::pieces(spec))
    {
        for (size_t i = 0; i < shape_.size(); i++) {
            count_ = shape_[i] == Piece() ? count_ : i + 1;
        }
    }

    bool operator==(const TensorImage &other) const = default;

    bool is_of(const c10::TensorImpl *impl, const ThreadKeys &keys) const
    {
        const uint64_t *shape = ShapeWords::of(impl);
        WordPair differing = state_.difference((load_pair(StateWords::of(impl)) | keys.included) & keys.kept)
                             | difference(shape, 0) | difference(shape, 1) | difference(shape, 2);
        for (size_t i = kOfTwoDims; i < count_; i++) {
            differing |= difference(shape, i);
        }
        return (differing[0] | differing[1]) == 0;
    }

  private:
    static constexpr size_t kOfTwoDims = 3;

    WordPair difference(const uint64_t *shape, size_t i) const
    {
        return shape_[i].difference(load_pair(shape + ShapeWords::kPlaces[i]));
    }

    Piece state_;
    std::array<Piece, ShapeWords::kPlaces.size()> shape_;
    size_t count_ = 0; /* pieces of the shape in which anything matters, and those before them */
};

} // namespace tracer

#endif
