/* Shapes for error messages and listings. */
#ifndef LSI_GRAPH_SHAPE_H
#define LSI_GRAPH_SHAPE_H

#include <lockstep/types.h>

/* LS_FAIL(..., lsi_shape_text(&shape).text): "[24, 48]". */
typedef struct lsi_shape_string {
    char text[LS_MAX_RANK * 22 + 3];
} lsi_shape_string;
lsi_shape_string lsi_shape_text(const ls_shape *shape);

bool lsi_shape_equal(const ls_shape *a, const ls_shape *b);

#endif
