/* Products of matrices by libraries that have several algorithms for one shape, whose bits differ: what a shape is, and
 * how code above the backends sees to it that all processes of a job use one algorithm for it, in every run. */
#ifndef LSI_KERNELS_GEMM_CHOICE_H
#define LSI_KERNELS_GEMM_CHOICE_H

#include <lockstep/backend.h>

/* What is done to a product before it is stored. */
enum { LSI_GEMM_PLAIN, LSI_GEMM_GELU, LSI_GEMM_GELU_BWD, LSI_GEMM_EPILOGUE_COUNT };

/* What an algorithm is chosen for; compared byte by byte, so padding is zeroed. c[m,n] = op(a) op(b), row-major, as in
 * ops.def. */
typedef struct lsi_gemm_shape {
    int64_t m, n, k;
    int32_t trans_a, trans_b;
    int32_t factors, c; /* ls_dtype */
    int32_t tf32;       /* f32 factors may be rounded to it */
    int32_t bias;       /* added before the product is stored */
    int32_t epilogue;
    int32_t aligned; /* all matrices to 256 bytes; else to one element */
} lsi_gemm_shape;

/* The shape of a launch of one of the ops that make products; false: the op is none of them, or makes nothing by the
 * library (an extent is 0). */
bool lsi_gemm_shape_of(const ls_op *op, const void *arguments, bool tf32, lsi_gemm_shape *out);
/* A launch of the shape's op: its argument struct, of zeroed LS_OP_MAX_ARGUMENTS bytes, but for the views' data. Views
 * in `out_views`, of which at most LSI_GEMM_MAX_VIEWS are given (count above 0). */
enum { LSI_GEMM_MAX_VIEWS = 5 };
const ls_op *lsi_gemm_shape_op(const lsi_gemm_shape *shape, void *arguments);
/* The product without its epilogue: what is launched in its place where the epilogue is split off. */
lsi_gemm_shape lsi_gemm_shape_plain(const lsi_gemm_shape *shape);
/* "m 64, n 512, k 784, bf16 to f32" and what else there is to say. */
typedef struct lsi_gemm_text {
    char text[128];
} lsi_gemm_text;
lsi_gemm_text lsi_gemm_shape_text(const lsi_gemm_shape *shape);

/* One algorithm; equal bytes are equal algorithms. May be sent to processes that run the same version of the library.
 */
typedef struct lsi_gemm_algorithm {
    int32_t split; /* 1: a plain product, and a kernel of ours for the epilogue; the rest means nothing */
    int32_t reserved;
    uint64_t library[8]; /* the library's own description */
} lsi_gemm_algorithm;

/* The same in numbers with names (gemm_settings.def), for files. The first one is `split`. */
enum {
    LSI_GEMM_SETTING_split,
#define LS_GEMM_SETTING(name, attribute, type) LSI_GEMM_SETTING_##name,
#include "kernels/gemm_settings.def"
#undef LS_GEMM_SETTING
    LSI_GEMM_N_SETTINGS
};
typedef struct lsi_gemm_settings {
    int64_t value[LSI_GEMM_N_SETTINGS];
} lsi_gemm_settings;
const char *lsi_gemm_setting_name(int setting);

enum { LSI_GEMM_MAX_PROPOSALS = 24 };

/* What a backend offers whose library has a choice. All calls from the thread that queues work; none is collective. */
typedef struct lsi_gemm_choices {
    /* What the device is, and name and version of the library: algorithms chosen for one of them are for no other. */
    const char *(*model)(ls_device *device);
    const char *(*library)(ls_device *device);
    /* Algorithms of the shape that give the same bits in every run, the one to be taken by default first; at most
     * LSI_GEMM_MAX_PROPOSALS. ERR_DEVICE when there is none. */
    ls_status (*propose)(ls_device *device, const lsi_gemm_shape *shape, lsi_gemm_algorithm *out, int *n_out);
    /* Whether this device runs it, within the workspace of a stream. ERR_DEVICE when the library does not answer: that
     * is no "no", which would make all ranks take another one. */
    ls_status (*accepts)(ls_device *device, const lsi_gemm_shape *shape, const lsi_gemm_algorithm *algorithm, bool *out);
    /* Products of the shape are made by it from now on; not after a recording holds one. For what was proposed or made
     * here, or is accepted: nothing is checked again. */
    ls_status (*install)(ls_device *device, const lsi_gemm_shape *shape, const lsi_gemm_algorithm *algorithm);
    /* From an algorithm to numbers and back; ERR_DEVICE where the library does not know them, or the order of sums
     * would not be fixed. */
    ls_status (*settings)(const lsi_gemm_algorithm *algorithm, lsi_gemm_settings *out);
    ls_status (*make)(ls_device *device, const lsi_gemm_shape *shape, const lsi_gemm_settings *settings,
                      lsi_gemm_algorithm *out);
} lsi_gemm_choices;

/* NULL: products of this device are made in one way. */
const lsi_gemm_choices *lsi_gemm_choices_of(const ls_device *device);

#endif
