/* A plan file: which algorithm makes each product, measured on one kind of GPU with one version of the library.
 *
 *     {"lockstep_gemm_plan": 1,
 *      "device": "NVIDIA H200, 132 SMs, sm090",
 *      "library": "cuBLASLt 13.0.0",
 *      "products": [
 *       {"m": 64, "n": 256, "k": 784, "transpose_a": false, "transpose_b": false, "factors": "bf16", "result": "bf16",
 *        "tf32": false, "bias": true, "epilogue": "gelu", "aligned": true,
 *        "algorithm": {"split": 0, "id": 66, ...}, "microseconds": 12.5}]}
 *
 * The numbers of an algorithm are those of gemm_settings.def. Times are for people: they do not count in the hash. */
#ifndef LSI_TRAIN_TUNING_H
#define LSI_TRAIN_TUNING_H

#include <stdbool.h>

#include "base/text.h"
#include "kernels/gemm_choice.h"

typedef struct lsi_tuned {
    lsi_gemm_shape shape;
    lsi_gemm_settings settings;
    double microseconds; /* of one launch, the median */
} lsi_tuned;

typedef struct lsi_tuning {
    char *device, *library; /* lsi_gemm_choices.model and .library */
    lsi_tuned *entry;
    int n;
    char hash[17]; /* 16 hex digits of all that can change bits */
} lsi_tuning;

/* ERR_CONFIG names path, product and member. */
LS_MUST_USE ls_status lsi_tuning_parse(const char *path, const char *text, size_t size, lsi_tuning *out);
LS_MUST_USE ls_status lsi_tuning_print(const lsi_tuning *tuning, lsi_text *out);
/* Fills in `hash`. */
LS_MUST_USE ls_status lsi_tuning_seal(lsi_tuning *tuning);
void lsi_tuning_free(lsi_tuning *tuning);
/* NULL: not in it. */
const lsi_tuned *lsi_tuning_find(const lsi_tuning *tuning, const lsi_gemm_shape *shape);
/* Not collective: makes the device's products as the plan says. ERR_CONFIG where it is for another device, another
 * library, or a backend without a choice; each says the way out. */
LS_MUST_USE ls_status lsi_tuning_install(const lsi_tuning *tuning, const char *path, ls_device *device);

#endif
