/* Arithmetic of collectives: every step is rounded to the type, as where each GPU of a ring adds its own. */
#include "nccl_internal.h"
#include "number.h"

size_t cusim_nccl_type_size(int type)
{
    static const uint8_t sizes[] = {
        [ncclInt8] = 1,   [ncclUint8] = 1,   [ncclInt32] = 4,   [ncclUint32] = 4,  [ncclInt64] = 8,
        [ncclUint64] = 8, [ncclFloat16] = 2, [ncclFloat32] = 4, [ncclFloat64] = 8, [ncclBfloat16] = 2,
    };

    return type >= 0 && type < (int)sizeof sizes ? sizes[type] : 0;
}

/* FOR_TYPE(type, BODY): BODY(stored type, type of the arithmetic, load, store) for the NCCL type. */
#define SAME(x) (x)
#define FOR_TYPE(type, BODY)                                                                                           \
    switch (type) {                                                                                                    \
    case ncclInt8:                                                                                                     \
        BODY(int8_t, int32_t, SAME, (int8_t))                                                                          \
        break;                                                                                                         \
    case ncclUint8:                                                                                                    \
        BODY(uint8_t, uint32_t, SAME, (uint8_t))                                                                       \
        break;                                                                                                         \
    case ncclInt32: /* sums wrap, as on the device */                                                                  \
        BODY(int32_t, int64_t, SAME, (int32_t))                                                                        \
        break;                                                                                                         \
    case ncclUint32:                                                                                                   \
        BODY(uint32_t, uint32_t, SAME, SAME)                                                                           \
        break;                                                                                                         \
    case ncclInt64:                                                                                                    \
        BODY(int64_t, int64_t, SAME, SAME)                                                                             \
        break;                                                                                                         \
    case ncclUint64:                                                                                                   \
        BODY(uint64_t, uint64_t, SAME, SAME)                                                                           \
        break;                                                                                                         \
    case ncclFloat16:                                                                                                  \
        BODY(uint16_t, float, cusim_from_f16, cusim_to_f16)                                                            \
        break;                                                                                                         \
    case ncclBfloat16:                                                                                                 \
        BODY(uint16_t, float, cusim_from_bf16, cusim_to_bf16)                                                          \
        break;                                                                                                         \
    case ncclFloat32:                                                                                                  \
        BODY(float, float, SAME, SAME)                                                                                 \
        break;                                                                                                         \
    case ncclFloat64:                                                                                                  \
        BODY(double, double, SAME, SAME)                                                                               \
        break;                                                                                                         \
    default:                                                                                                           \
        cusim_die("NCCL: no arithmetic for type %d", type);                                                            \
    }

#define EACH(stored, wide, load, store, expression)                                                                    \
    for (size_t i = 0; i < count; i++) {                                                                               \
        wide x = (wide)load(((const stored *)into)[i]), y = (wide)load(((const stored *)from)[i]);                     \
                                                                                                                       \
        ((stored *)into)[i] = store(expression);                                                                       \
    }
#define ADD(stored, wide, load, store) EACH(stored, wide, load, store, x + y)
#define MULTIPLY(stored, wide, load, store) EACH(stored, wide, load, store, x *y)
#define LARGER(stored, wide, load, store) EACH(stored, wide, load, store, x > y ? x : y)
#define SMALLER(stored, wide, load, store) EACH(stored, wide, load, store, x < y ? x : y)

void cusim_nccl_reduce(void *into, const void *from, size_t count, int type, int reduction)
{
    switch (reduction) {
    case ncclProd:
        FOR_TYPE(type, MULTIPLY)
        break;
    case ncclMax:
        FOR_TYPE(type, LARGER)
        break;
    case ncclMin:
        FOR_TYPE(type, SMALLER)
        break;
    default:
        FOR_TYPE(type, ADD)
        break;
    }
}

#define DIVIDE_EACH(stored, wide, load, store)                                                                         \
    for (size_t i = 0; i < count; i++) {                                                                               \
        ((stored *)data)[i] = store((wide)load(((const stored *)data)[i]) / (wide)by);                                 \
    }

void cusim_nccl_divide(void *data, size_t count, int type, int by)
{
    FOR_TYPE(type, DIVIDE_EACH)
}

#define SCALE_EACH(stored, wide, load, store)                                                                          \
    {                                                                                                                  \
        stored factor;                                                                                                 \
                                                                                                                       \
        memcpy(&factor, scalar, sizeof factor);                                                                        \
        for (size_t i = 0; i < count; i++) {                                                                           \
            ((stored *)data)[i] = store((wide)load(((const stored *)data)[i]) * (wide)load(factor));                   \
        }                                                                                                              \
    }

void cusim_nccl_multiply(void *data, size_t count, int type, const void *scalar)
{
    FOR_TYPE(type, SCALE_EACH)
}
