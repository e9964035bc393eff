/* Element types, shapes, and views of device memory. */
#ifndef LS_TYPES_H
#define LS_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* LS_REAL describes values of a graph (layer.h): "what the plan computes in". No memory has this type. */
typedef enum ls_dtype {
    LS_F32, LS_F64, LS_I32, LS_U8, LS_F16, LS_BF16,
    LS_DTYPE_COUNT,
    LS_REAL = LS_DTYPE_COUNT
} ls_dtype;

/* Bytes of one element; 0 for LS_REAL. */
size_t ls_dtype_bytes(ls_dtype dtype);
const char *ls_dtype_name(ls_dtype dtype);

enum { LS_MAX_RANK = 4 };

/* Extents, slowest first. rank 0 is a scalar (count 1). */
typedef struct ls_shape {
    int rank;
    int64_t dim[LS_MAX_RANK];
} ls_shape;

static inline ls_shape ls_shape1(int64_t a)
{
    ls_shape s = {1, {a, 0, 0, 0}};
    return s;
}
static inline ls_shape ls_shape2(int64_t a, int64_t b)
{
    ls_shape s = {2, {a, b, 0, 0}};
    return s;
}
static inline ls_shape ls_shape3(int64_t a, int64_t b, int64_t c)
{
    ls_shape s = {3, {a, b, c, 0}};
    return s;
}
/* Product of the extents. */
int64_t ls_shape_count(const ls_shape *shape);

/* `count` contiguous elements of device memory; data NULL and count 0 mean "not given". Owns nothing. */
typedef struct ls_view {
    void *data;
    int64_t count;
    ls_dtype dtype;
} ls_view;

static inline ls_view ls_view_make(void *data, int64_t count, ls_dtype dtype)
{
    ls_view v = {data, count, dtype};
    return v;
}

#ifdef __cplusplus
}
#endif
#endif
