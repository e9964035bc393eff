#include "graph/shape.h"

#include <inttypes.h>
#include <stdio.h>

lsi_shape_string lsi_shape_text(const ls_shape *shape)
{
    lsi_shape_string s = {"["};
    size_t used = 1;

    for (int i = 0; i < shape->rank; i++) {
        used += (size_t)snprintf(s.text + used, sizeof s.text - used, "%s%" PRId64, i == 0 ? "" : ", ", shape->dim[i]);
    }
    s.text[used] = ']';
    s.text[used + 1] = '\0';
    return s;
}

bool lsi_shape_equal(const ls_shape *a, const ls_shape *b)
{
    bool equal = a->rank == b->rank;

    for (int i = 0; equal && i < a->rank; i++) {
        equal = a->dim[i] == b->dim[i];
    }
    return equal;
}
