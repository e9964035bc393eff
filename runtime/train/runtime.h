/* One process of the job: what every part of training is handed. */
#ifndef LSI_TRAIN_RUNTIME_H
#define LSI_TRAIN_RUNTIME_H

#include "backend/buffer.h"
#include "config/config.h"
#include "device/affinity.h"
#include "device/binding.h"
#include "job/watchdog.h"
#include "train/geometry.h"
#include "train/tuning.h"
#include <lockstep/comm.h>
#include <lockstep/train.h>

/* Heads of what is made from a runtime. */
typedef struct lsi_runtime_child lsi_runtime_child;
struct lsi_runtime_child {
    void (*release)(lsi_runtime_child *child);      /* disowns it, too */
    lsi_runtime_child *older;
};

struct ls_runtime {
    lsi_job *job;
    lsi_config *loaded;             /* owns the values below */
    const ls_config *config;
    lsi_watchdog *watchdog;
    lsi_affinity affinity;
    const ls_backend *backend;
    lsi_binding *binding;           /* which GPU is this process's; NULL on the cpu */
    ls_device *device;
    lsi_memory_account account;
    lsi_geometry geometry;
    ls_comm *comm;
    lsi_runtime_child *newest;      /* what is still open: a program that fails on its way leaves it to the close */
    lsi_tuning *tuning;             /* device.gemm_plan, installed; NULL: none */
    char fingerprint[640];          /* equal on all ranks: results are comparable only where this text is equal */
    bool dry_run;                   /* ls_run and ls_run_model say what they would use, and train nothing */
    double opened_seconds;          /* when, on this process's clock */
    int stopped_code;               /* exit code of a run that ended early without a checkpoint; 0: none did */
    bool agreed;                    /* the failure under way is known to all ranks and has been printed */
};

/* Collective. Opens the runtime on an existing job and a configuration; takes both, also on failure. */
LS_MUST_USE ls_status lsi_runtime_open(lsi_job *job, lsi_config *config, ls_runtime **out);
void lsi_runtime_adopt(ls_runtime *runtime, lsi_runtime_child *child);
/* Does nothing when it was not adopted. */
void lsi_runtime_disown(ls_runtime *runtime, lsi_runtime_child *child);
/* lsi_job_agree, remembering that a failure has been printed. */
LS_MUST_USE ls_status lsi_runtime_agree(ls_runtime *runtime, ls_status mine);
/* A run ends early for `reason` (job/stop.h). STOPPED, when its state is saved; otherwise OK, and ls_runtime_close returns
 * 128 + n after a signal, 0 after anything the program or the configuration asked for. */
LS_MUST_USE ls_status lsi_runtime_stopped(ls_runtime *runtime, int reason, bool saved);
/* For helper threads: ends the job because of this thread's failure. */
void lsi_runtime_abort(void *runtime, ls_status why);

/* Collective. Rank 0 resolves the configuration (status of that in `mine`), the others receive it. `config` is an
 * output on the others, an input on rank 0. */
LS_MUST_USE ls_status lsi_runtime_share_config(lsi_job *job, ls_status mine, lsi_config **config);

#endif
