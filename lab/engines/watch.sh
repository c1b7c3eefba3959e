# Becomes a server, beside a process that ends it when standard input ends: that is
# when whoever started it ended, even if killed. Then its folder goes, too. A line in
# standard input says that the server is gone and its folder stays.
#
# Arguments: the folder, the signal that ends the server, its command.
folder=$1 signal=$2
shift 2
# What libfaketime leaves behind.
shared="/dev/shm/faketime_shm_$$ /dev/shm/sem.faketime_sem_$$"
exec 5<&0 < /dev/null
(
	# Ctrl-C in a terminal is for all that run there.
	trap '' HUP INT TERM
	{
		if IFS= read -r _ <&5; then
			rm -f $shared
			exit
		fi
		kill -"$signal" $$
		kill -CONT $$
		for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
			kill -0 $$ || break
			sleep 0.1
		done
		kill -KILL $$
		rm -rf "$folder" $shared
	} > /dev/null 2>&1 3>&- &
)
exec "$@" 5<&-
