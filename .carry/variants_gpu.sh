#!/bin/bash
# Variants on a GPU: base search of transpose, one variant that works, one that does not compile, one that is wrong.
K="${K:-python -m evo}"; D=$(mktemp -d); here=$(dirname "$0")
$K search transpose --problem rows=4096,cols=4096 --device cuda --trials 12 --db $D/g.db > $D/base.log 2>&1
$K variant submit $here/plain_transpose --search 1 --trials 8 --wait --db $D/g.db 2>&1 | cut -c1-160
mkdir $D/wrong $D/broken
sed 's/out\[orow \* rows + oc\] = /out[orow * rows + oc] = __half(2.0f) * /' $here/plain_transpose/kernel.cu > $D/wrong/kernel.cu
sed 's/__syncthreads/__syncthread/' $here/plain_transpose/kernel.cu > $D/broken/kernel.cu
for v in wrong broken; do sed "s/^name.*/name = \"$v\"/" $here/plain_transpose/variant.toml > $D/$v/variant.toml
$K variant submit $D/$v --search 1 --trials 2 --wait --db $D/g.db 2>&1 | cut -c1-160; done
$K variant list 1 --db $D/g.db
$K champion show 1 --db $D/g.db 2>&1 | head -8 | cut -c1-160
