/* Put before every .cu file (-include): its launches, which are never run, make each kernel known by its name. */
#ifndef CUSIM_SWAPPED_REGISTER_H
#define CUSIM_SWAPPED_REGISTER_H

#include "cusim_device.h"
#include "swapped.h"

static inline void cusim_unpack(cusim_pack<> *, void *const *)
{
}
template <class T, class... Rest> static inline void cusim_unpack(cusim_pack<T, Rest...> *pack, void *const *arguments)
{
    memcpy((void *)&pack->value, *arguments, sizeof(T));
    cusim_unpack(&pack->rest, arguments + 1);
}

template <auto K> struct cusim_entry;
template <class... P, void (*K)(P...)> struct cusim_entry<K> {
    static void fill(void *const *arguments, void *memory)
    {
        cusim_closure<P...> *closure = (cusim_closure<P...> *)memory;
        closure->kernel = K;
        cusim_unpack(&closure->arguments, arguments);
    }
    static const char *signature()
    {
        return __PRETTY_FUNCTION__;
    }
    static bool enter()
    {
        kernel.signature = signature();
        kernel.closure_bytes = sizeof(cusim_closure<P...>);
        kernel.fill = fill;
        kernel.invoke = &cusim_call_closure<P...>;
        cusim_kernel_register(&kernel);
        return true;
    }
    static cusim_kernel kernel;
    static const bool is_known;
};
template <class... P, void (*K)(P...)> cusim_kernel cusim_entry<K>::kernel;
template <class... P, void (*K)(P...)> const bool cusim_entry<K>::is_known = cusim_entry<K>::enter();

#undef LAUNCH
#define LAUNCH(kernel, grid, block, shared, stream, ...)                                                               \
    ((void)&cusim_entry<kernel>::is_known,                                                                             \
     cusim_launch_kernel(#kernel, kernel, (grid), (block), (shared), (stream), ##__VA_ARGS__))

#endif
