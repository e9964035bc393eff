/* Which GPUs of a host a job's processes get: device.select and the filters beside it, applied to an inventory. Pure:
 * the same inputs give the same answer; leases are looked up before (lease.h), and one process per host decides for all
 * (binding.h). */
#ifndef LSI_DEVICE_SELECT_H
#define LSI_DEVICE_SELECT_H

#include "base/text.h"
#include "device/inventory.h"
#include <lockstep/config.h>

typedef enum lsi_links { LSI_LINKS_PREFER, LSI_LINKS_REQUIRE, LSI_LINKS_IGNORE } lsi_links;

/* The keys device.select ... device.mixed; texts are borrowed. */
typedef struct lsi_select_rules {
    const char *select;  /* "auto", "visible", or a list of indices, UUIDs and PCI addresses, in order */
    int64_t min_free;    /* bytes; 0: any */
    int max_utilization; /* per cent; 100: any */
    int min_capability;  /* 10 x major + minor; 0: any */
    const char *name;    /* part of the model's name, case ignored; "": any */
    const char *exclude; /* a list as in select; "": none */
    bool idle;           /* no foreign process computes on it */
    lsi_links links;
    bool sharing; /* several processes of the job on one GPU, and other jobs that allow it, too */
    bool mixed;   /* different models in one job */
} lsi_select_rules;

lsi_select_rules lsi_select_rules_of(const ls_config *config);

/* Why a GPU cannot be had. Those from LSI_REJECT_LEASED on may pass with time. */
typedef enum lsi_reject {
    LSI_REJECT_NO,
    LSI_REJECT_HIDDEN, /* this process does not see it */
    LSI_REJECT_LOST,
    LSI_REJECT_MIG, /* in MIG mode: only its instances can be used */
    LSI_REJECT_PROHIBITED,
    LSI_REJECT_UNHEALTHY,
    LSI_REJECT_NOT_LISTED, /* not in device.select */
    LSI_REJECT_EXCLUDED,
    LSI_REJECT_NAME,
    LSI_REJECT_CAPABILITY,
    LSI_REJECT_TOO_SMALL, /* memory_total below min_free */
    LSI_REJECT_LEASED,
    LSI_REJECT_RESERVED,  /* a waiting job of higher priority has a claim on it */
    LSI_REJECT_EXCLUSIVE, /* exclusive compute mode, and a process has it */
    LSI_REJECT_OCCUPIED,  /* likewise, as CUDA said when it was to be opened */
    LSI_REJECT_BUSY,      /* device.idle, and a process computes on it */
    LSI_REJECT_MEMORY,
    LSI_REJECT_UTILIZATION
} lsi_reject;

typedef struct lsi_verdict {
    lsi_reject reject;
    char reason[224]; /* for people: "2.9 GiB free, device.min_free is 20G" */
} lsi_verdict;

/* What is known of leases, claims and refusals, by place in the inventory. May be NULL: nothing is. */
typedef struct lsi_select_taken {
    bool leased, reserved;
    bool occupied; /* CUDA refused it to a process of this job a moment ago */
    int xid;       /* it told of this fatal Xid since the host was started (lease_fault.h); 0: of none */
    char holder[112];
} lsi_select_taken;

/* The processes of the job on this host, and what each one sees: they differ under Slurm's --gpus-per-task. */
typedef struct lsi_select_ranks {
    int n;
    const uint64_t *sees; /* per process (at least one): bit g is place g of the inventory. NULL: each sees what this
                           * one does */
} lsi_select_ranks;

typedef struct lsi_choice {
    int n;                 /* of `gpus`: as many as processes, or fewer when they share */
    int gpus[LSI_GPU_MAX]; /* places in the inventory: process i gets gpus[i % n] */
    lsi_verdict verdicts[LSI_GPU_MAX];
    int ranking[LSI_GPU_MAX], n_ranked; /* the acceptable ones, best first */
    bool may_pass;                      /* of a failure: waiting can help */
} lsi_choice;

/* Fails with one line that names what is missing, each GPU's reason when they are few, and the way out: ERR_CONFIG for
 * a list that cannot be read or names a GPU twice, ERR_DEVICE for the rest. The verdicts are there also then. `host`
 * goes into messages. `n` = 0: only judge. */
LS_MUST_USE ls_status lsi_select(const lsi_inventory *inventory, const lsi_select_rules *rules,
                                 const lsi_select_taken *taken, const lsi_select_ranks *ranks, const char *host,
                                 lsi_choice *out);

#endif
