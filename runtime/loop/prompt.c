#include "loop/prompt.h"

#include <string.h>

#include "base/memory.h"
#include "base/number.h"

static ls_status check_range(int64_t id, int64_t vocab, const char *what, int64_t position)
{
    LS_REQUIRE(id >= 0 && id < vocab, LS_ERR_USAGE, "--prompt: %s %lld at position %lld; the model knows 0 to %lld",
               what, (long long)id, (long long)position, (long long)vocab - 1);
    return LS_OK;
}

static ls_status read_bytes(const char *text, int64_t vocab, int32_t *token, int64_t *n)
{
    for (*n = 0; text[*n] != '\0'; (*n)++) {
        token[*n] = (unsigned char)text[*n];
        LS_TRY(check_range(token[*n], vocab, "byte", *n));
    }
    return LS_OK;
}

/* Cuts up `list`. */
static ls_status read_ids(char *list, int64_t vocab, int32_t *token, int64_t *n)
{
    static const char separators[] = " ,\t\n";
    char *rest, *word;

    *n = 0;
    for (word = strtok_r(list, separators, &rest); word != NULL; word = strtok_r(NULL, separators, &rest)) {
        int64_t id;
        const char *why = lsi_number_int(word, &id);

        LS_REQUIRE(
            why == NULL, LS_ERR_USAGE,
            "--prompt: '%.40s': %s; this model was trained on tokens, its prompt is a list of ids like 15496 995", word,
            why);
        LS_TRY(check_range(id, vocab, "id", *n));
        token[(*n)++] = (int32_t)id;
    }
    LS_REQUIRE(*n > 0, LS_ERR_USAGE, "--prompt holds no token; give it at least one id");
    return LS_OK;
}

ls_status lsi_prompt_read(const char *text, bool bytes, int64_t vocab, int32_t **token, int64_t *n)
{
    char *copy;
    int32_t *memory;

    LS_TRY(lsi_memory_strdup(text, &copy));
    ls_status status = lsi_memory_alloc(strlen(text) * sizeof *memory, "prompt", (void **)&memory);
    if (status == LS_OK) {
        status = bytes ? read_bytes(text, vocab, memory, n) : read_ids(copy, vocab, memory, n);
        if (status == LS_OK) {
            *token = memory;
        } else {
            lsi_memory_free(memory);
        }
    }
    lsi_memory_free(copy);
    return status;
}

void lsi_prompt_append(lsi_text *out, bool bytes, int64_t position, int32_t token)
{
    char byte = (char)token;

    if (bytes) {
        lsi_text_append_bytes(out, &byte, 1);
    } else {
        lsi_text_append(out, "%s%d", position > 0 ? " " : "", token);
    }
}
