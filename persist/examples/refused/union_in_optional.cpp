// expect: a class with a union is not described within an optional
#include <p3l_containers.hpp>
struct either {
  p3l::field<bool> is_pointer;
  union value {
    p3l::pptr<either> other;
    long number;
    value() : number(0) {}
  } is;
};
static std::uint32_t live(const void *object, std::size_t element) {
  return static_cast<const either *>(object)[element].is_pointer;
}
P3L_CLASS_UNIONS(either, either, 1, nullptr,
                 P3L_UNION(either, is, live, P3L_PLAIN_ARM, P3L_ARM(either, is, is.other)));
struct box {
  p3l::optional<either> maybe;
};
P3L_CLASS(box, box, 1);
