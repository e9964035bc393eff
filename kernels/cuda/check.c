/* Checks of arguments that the launchers share. */
#include <lockstep/backend.h>

ls_status lsi_cuda_check_types(const char *op, const ls_view *const *views, int n);

ls_status lsi_cuda_check_types(const char *op, const ls_view *const *views, int n)
{
    const ls_view *first = NULL;

    for (int i = 0; i < n; i++) {
        if (views[i]->count == 0) {
            continue;
        }
        first = first == NULL ? views[i] : first;
        LS_REQUIRE(views[i]->dtype == LS_F32 || views[i]->dtype == LS_F16 || views[i]->dtype == LS_BF16,
                   LS_ERR_INTERNAL, "%s: a view of %lld elements is %s; choices: f32, f16, bf16", op,
                   (long long)views[i]->count, ls_dtype_name(views[i]->dtype));
        LS_REQUIRE(views[i]->dtype == first->dtype, LS_ERR_INTERNAL,
                   "%s: views of %lld elements of %s and %lld of %s; they must be alike", op, (long long)first->count,
                   ls_dtype_name(first->dtype), (long long)views[i]->count, ls_dtype_name(views[i]->dtype));
    }
    return LS_OK;
}
