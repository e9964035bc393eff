/* What [precision], [loss_scale], [comm] and [train] come to for one run. */
#ifndef LSI_TRAIN_PRECISION_H
#define LSI_TRAIN_PRECISION_H

#include <lockstep/backend.h>
#include <lockstep/config.h>

/* How the device computes in the compute type, to follow its name: products on the cpu (", products widened to f32"),
 * attention on a GPU (", attention f16 by mma m16n8k16"). Part of the fingerprint: the ways differ in bits. */
enum { LSI_PRECISION_NOTE = 80 };
void lsi_precision_note(const ls_config *config, ls_device *device, char out[LSI_PRECISION_NOTE]);
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
