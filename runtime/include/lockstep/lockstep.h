/* The one header for training programs. backend.h, comm.h, layer.h and dataset.h are for extending the runtime. */
#ifndef LS_LOCKSTEP_H
#define LS_LOCKSTEP_H

#include <lockstep/checkpoint.h>
#include <lockstep/config.h>
#include <lockstep/graph.h>
#include <lockstep/layers.h>
#include <lockstep/status.h>
#include <lockstep/train.h>
#include <lockstep/types.h>

#endif
