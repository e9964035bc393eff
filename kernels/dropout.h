/* What the dropout op and dropout inside attention share: which random words keep an element. */
#ifndef LSI_KERNELS_DROPOUT_H
#define LSI_KERNELS_DROPOUT_H

#include "base/random.h"
#include <lockstep/status.h>

enum {
    LSI_DROPOUT_WORDS = 64,         /* random words drawn at once */
    LSI_DROPOUT_ATTENTION = 2       /* low byte of the last counter word in attention; 0 in the dropout op */
};

/* A word at or above `threshold` keeps its element, multiplied by `scale`. Probability 0: 0 and 1. */
typedef struct lsi_dropout_rule {
    uint32_t threshold;
    float scale;
} lsi_dropout_rule;

LS_MUST_USE static inline ls_status lsi_dropout_rule_make(float probability, lsi_dropout_rule *out)
{
    LS_REQUIRE(probability >= 0.0f && probability < 1.0f, LS_ERR_INTERNAL, "dropout probability %g is not in [0, 1)",
               (double)probability);
    out->threshold = (uint32_t)((double)probability * 0x1p32);
    out->scale = (float)(1.0 / (1.0 - (double)probability));
    return LS_OK;
}

#endif
