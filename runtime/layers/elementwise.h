/* What layers that keep their input's shape have in common. */
#ifndef LSI_LAYERS_ELEMENTWISE_H
#define LSI_LAYERS_ELEMENTWISE_H

#include <lockstep/layer.h>

/* Real inputs of one shape, which becomes the output's. */
LS_MUST_USE ls_status lsi_elementwise_infer(ls_layer_node *node);

#endif
