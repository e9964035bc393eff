#include <lockstep/types.h>

static const struct {
    size_t bytes;
    const char *name;
} table[LS_DTYPE_COUNT + 1] = {
    [LS_F32] = {4, "f32"},
    [LS_F64] = {8, "f64"},
    [LS_I32] = {4, "i32"},
    [LS_F16] = {2, "f16"},
    [LS_BF16] = {2, "bf16"},
    [LS_U8] = {1, "u8"},
    [LS_REAL] = {0, "real"},
};

size_t ls_dtype_bytes(ls_dtype dtype)
{
    return (unsigned)dtype <= LS_REAL ? table[dtype].bytes : 0;
}

const char *ls_dtype_name(ls_dtype dtype)
{
    return (unsigned)dtype <= LS_REAL ? table[dtype].name : "unknown";
}

int64_t ls_shape_count(const ls_shape *shape)
{
    int64_t count = 1;

    for (int i = 0; i < shape->rank; i++) {
        count *= shape->dim[i];
    }
    return count;
}
