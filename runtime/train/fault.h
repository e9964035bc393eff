/* Faults on purpose: [fault] inject = kind@rank:step[:arg], ... */
#ifndef LSI_TRAIN_FAULT_H
#define LSI_TRAIN_FAULT_H

#include <lockstep/status.h>
#include <stdbool.h>
#include <stdint.h>

enum { LSI_FAULT_MAX = 16 };

typedef struct lsi_fault {
    float value;        /* infinity or NaN */
    int rank;
    int64_t step;       /* from 1 */
    int64_t slot;       /* of the global batch; -1: the rank's last one */
    bool in_loss;       /* otherwise in the first element of the gradient */
} lsi_fault;

typedef struct lsi_faults {
    int n;
    lsi_fault fault[LSI_FAULT_MAX];
} lsi_faults;

/* kind: inf, nan. arg: a slot's number, or `loss`. ERR_CONFIG also when LOCKSTEP_ALLOW_FAULTS=1 is not set. */
LS_MUST_USE ls_status lsi_faults_parse(const char *text, lsi_faults *out);

#endif
