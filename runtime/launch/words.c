#include "launch/words.h"

#include <string.h>

#include "base/memory.h"

ls_status lsi_words_add(lsi_words *words, const char *word)
{
    void *list = words->word;
    char *copy;

    LS_TRY(lsi_memory_resize(&list, ((size_t)words->n + 2) * sizeof(char *), "a command line"));
    words->word = list;
    LS_TRY(lsi_memory_strdup(word, &copy));
    words->word[words->n++] = copy;
    return LS_OK;
}

ls_status lsi_words_add_all(lsi_words *words, char *const *more, int n)
{
    for (int i = 0; i < n; i++) {
        LS_TRY(lsi_words_add(words, more[i]));
    }
    return LS_OK;
}

void lsi_words_free(lsi_words *words)
{
    for (int i = 0; i < words->n; i++) {
        lsi_memory_free(words->word[i]);
    }
    lsi_memory_free(words->word);
    *words = (lsi_words){0};
}

void lsi_words_quote(char *const *word, int n, lsi_text *out)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";

    for (int i = 0; i < n; i++) {
        const char *text = word[i];

        lsi_text_append(out, "%s", i > 0 ? " " : "");
        if (text[0] != '\0' && text[strspn(text, plain)] == '\0') {
            lsi_text_append(out, "%s", text);
            continue;
        }
        lsi_text_append(out, "'");
        for (; *text != '\0'; text++) {
            if (*text == '\'') {
                lsi_text_append(out, "'\\''");
            } else {
                lsi_text_append_bytes(out, text, 1);
            }
        }
        lsi_text_append(out, "'");
    }
}
