#include "data/path_list.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

static ls_status add_matches(const glob_t *matches, lsi_path_list *list)
{
    void *paths = list->path;

    LS_TRY(lsi_memory_resize(&paths, ((size_t)list->n + matches->gl_pathc) * sizeof(char *), "list of files"));
    list->path = paths;
    for (size_t i = 0; i < matches->gl_pathc; i++) {
        LS_TRY(lsi_memory_strdup(matches->gl_pathv[i], &list->path[list->n]));
        list->n++;
    }
    return LS_OK;
}

static ls_status expand_pattern(const char *pattern, lsi_path_list *list)
{
    glob_t matches;
    /* A name without wildcards comes back as it is, so that opening it says what is wrong with it. glob sorts by the
     * locale: we do it ourselves. */
    int result = glob(pattern, GLOB_NOSORT | GLOB_NOMAGIC, NULL, &matches);

    LS_REQUIRE(result != GLOB_NOSPACE, LS_ERR_MEMORY, "out of memory: matching files with '%s'", pattern);
    LS_REQUIRE(result == 0, LS_ERR_DATA, "no file matches '%s'", pattern);
    ls_status status = add_matches(&matches, list);

    globfree(&matches);
    return status;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

ls_status lsi_path_list_expand(const char *text, lsi_path_list *out)
{
    char *copy, *rest, *item;
    ls_status status = LS_OK;

    LS_TRY(lsi_memory_strdup(text, &copy));
    rest = copy;
    while (status == LS_OK && (item = strsep(&rest, ",")) != NULL) {
        item = lsi_text_trim(item);
        status = *item != '\0' ? expand_pattern(item, out)
                               : LS_FAIL(LS_ERR_DATA, "'%s': an empty name in the list of files", text);
    }
    lsi_memory_free(copy);
    LS_TRY(status);
    qsort(out->path, (size_t)out->n, sizeof(char *), compare);
    for (int64_t i = 1; i < out->n; i++) {
        LS_REQUIRE(strcmp(out->path[i - 1], out->path[i]) != 0, LS_ERR_DATA, "%s: named twice in '%s'", out->path[i],
                   text);
    }
    return LS_OK;
}

void lsi_path_list_free(lsi_path_list *list)
{
    for (int64_t i = 0; i < list->n; i++) {
        lsi_memory_free(list->path[i]);
    }
    lsi_memory_free(list->path);
    *list = (lsi_path_list){0};
}
