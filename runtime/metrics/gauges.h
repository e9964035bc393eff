/* Numbers that are watched while training, and their text for Prometheus (exposition format 0.0.4). What a GPU does not
 * tell is NaN and left out. */
#ifndef LSI_METRICS_GAUGES_H
#define LSI_METRICS_GAUGES_H

#include "base/text.h"
#include "device/inventory.h"

typedef enum lsi_gpu_gauge {
#define LS_GPU_GAUGE(field, kind, name, help, json, factor) LSI_GPU_GAUGE_##field,
#define LS_TRAINER_GAUGE(field, kind, name, help)
#include "metrics/gauges.def"
#undef LS_GPU_GAUGE
#undef LS_TRAINER_GAUGE
    LSI_GPU_GAUGES
} lsi_gpu_gauge;

typedef enum lsi_trainer_gauge {
#define LS_GPU_GAUGE(field, kind, name, help, json, factor)
#define LS_TRAINER_GAUGE(field, kind, name, help) LSI_TRAINER_GAUGE_##field,
#include "metrics/gauges.def"
#undef LS_GPU_GAUGE
#undef LS_TRAINER_GAUGE
    LSI_TRAINER_GAUGES
} lsi_trainer_gauge;

/* One GPU of the job. Plain data: it travels between processes. */
typedef struct lsi_gpu_numbers {
    double value[LSI_GPU_GAUGES];   /* in the units of Prometheus */
    int32_t strangers;              /* processes of others on it; -1: not told */
    int32_t valid;                  /* 0: nothing has come yet */
} lsi_gpu_numbers;

/* Of training. A loss that is NaN is told as such: somebody wants to be woken up. */
typedef struct lsi_trainer_numbers {
    double value[LSI_TRAINER_GAUGES];
    bool told[LSI_TRAINER_GAUGES];
} lsi_trainer_numbers;

void lsi_gauges_tell(lsi_trainer_numbers *numbers, lsi_trainer_gauge gauge, double value);

/* Whose numbers they are. */
typedef struct lsi_gpu_label {
    int rank, index;                /* index: nvidia-smi's */
    char uuid[LSI_GPU_UUID], name[LSI_GPU_NAME], host[64];
} lsi_gpu_label;

/* Numbers of the entry `place`. What an instance (MIG) does not tell is its GPU's. `pids`: this job's processes on this
 * host. */
void lsi_gauges_of_gpu(const lsi_inventory *inventory, int place, const int64_t *pids, int n_pids,
                       lsi_gpu_numbers *out);

/* Names in metrics.jsonl, and the factor from the unit of Prometheus to that of the name. */
const char *lsi_gauges_json_name(lsi_gpu_gauge gauge);
double lsi_gauges_json_factor(lsi_gpu_gauge gauge);

/* Appends a paragraph for each name; a name has all its lines together, as the format wants it. Of the GPUs
 * which[0 .. n-1]. */
void lsi_gauges_append_gpus(const lsi_gpu_label *labels, const lsi_gpu_numbers *numbers, const int *which, int n,
                            lsi_text *out);
void lsi_gauges_append_trainer(const lsi_trainer_numbers *numbers, const char *host, int rank, lsi_text *out);

#endif
