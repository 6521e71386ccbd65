/* SPDX-License-Identifier: Apache-2.0 */
#include "model/outcome/store.h"

const struct store_folder store_folders[STORE_PLACES] = {
	[STORE_HOME] = { "home", 0700 },        [STORE_TMP] = { "tmp", 01777 },
	[STORE_VAR_TMP] = { "var-tmp", 01777 }, [STORE_WORKSPACE] = { "workspace", 0755 },
	[STORE_LAYER] = { "layer", 0755 },
};
