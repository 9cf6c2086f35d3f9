# recover.sh SHAPE POOL: whether all that had been acknowledged is there, and nothing that is not whole.
said=$(tail -n 1 "$STRANDLINE_STDOUT")
said=${said#saved }
pool=$2
last=0
case "$1" in
manifest)
    last=$(cat "$pool/CURRENT")
    [ "$(cat "$pool/data-$last")" = "version $last" ] || { echo "version $last is not there"; exit 1; }
    ;;
checkpoint | swallowed)
    [ -f "$pool/checkpoint" ] && last=$(cat "$pool/checkpoint")
    last=${last:-0}
    # Bytes of a torn or lost line are no record.
    for record in $(tr -d '\000' < "$pool/log"); do
        [ "$record" -le $((last + 1)) ] || { echo "a gap before $record"; exit 1; }
        [ "$record" -le "$last" ] || last=$record
    done
    ;;
length)
    len=$(head -c 8 "$pool/data" | sed 's/^0*//')
    found=$(tail -c +4097 "$pool/data" | head -c "${len:-0}" | tr -d '\000' | wc -c)
    [ "$found" -eq "${len:-0}" ] || { echo "$found of $len bytes"; exit 1; }
    exit 0
    ;;
esac
[ "${last:-0}" -ge "${said:-0}" ] || { echo "$said was acknowledged, $last is there"; exit 1; }
