/* What [precision], [loss_scale], [comm] and [train] come to for one run. */
#ifndef LSI_TRAIN_PRECISION_H
#define LSI_TRAIN_PRECISION_H

#include <lockstep/backend.h>
#include <lockstep/config.h>

/* How the cpu makes products in the compute type, to follow its name: "" or ", products widened to f32". Part of the
 * fingerprint: the ways differ in bits. Other backends have one way. */
const char *lsi_precision_note(const ls_config *config, const ls_backend *backend);
/* Type of activations, their gradients and the weights that layers read. */
ls_dtype lsi_precision_compute(const ls_config *config);
/* The order of gradient sums is the library's own. */
bool lsi_precision_is_fast(const ls_config *config);
/* Type of gradients on the wire. */
ls_dtype lsi_precision_wire(const ls_config *config);
/* Layers read a 16-bit copy of the master weights. */
bool lsi_precision_is_mixed(const ls_config *config);

/* Loss scaling in effect: dynamic only with f16. */
typedef struct lsi_scaling {
    bool dynamic;
    double initial;     /* 1 where scaling is off */
} lsi_scaling;
lsi_scaling lsi_precision_scaling(const ls_config *config);

#endif
