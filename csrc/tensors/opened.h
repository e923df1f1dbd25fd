/* Access to private members of torch's classes, for reads that are too frequent to go through functions of its library. */
#ifndef TRACER_OPENED_H
#define TRACER_OPENED_H

namespace tracer {

/* An explicit instantiation may name a private member. */
template <class Member, typename Member::Type pointer> struct Opened {
    friend constexpr typename Member::Type opened(Member) { return pointer; }
};

} // namespace tracer

/* In namespace tracer: `object.*opened(NAME())` is the member of an object of the class. */
#define TRACER_OPEN(NAME, CLASS, TYPE, MEMBER) \
    struct NAME {                              \
        using Type = TYPE CLASS::*;            \
        friend constexpr Type opened(NAME);    \
    };                                         \
    template struct Opened<NAME, &CLASS::MEMBER>;

#endif
