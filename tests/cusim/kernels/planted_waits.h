/* Included ahead of attention's kernels: every barrier and every wait for copies asks whether it is the one to leave
 * out (planted_here.c). Headers that define what is redefined here come first. */
#include "kernels/cuda/launch.h"
#include "kernels/cuda/mma.h"

#include "planted_barriers.h"

#include "kernels/cuda/attention_mma.h"
#include "kernels/cuda/attention_plain.h"

/* Stands behind "Math::"; the same name inside is not replaced again. */
#define wait() HERE && planted_here(__FILE__, __LINE__) ? (void)0 : Math::wait()
