# Starts a watcher in the background, and then becomes the server. When standard input ends, the
# process that started the server has ended, even if it was killed: the watcher then ends the
# server and removes its folder. A line in standard input means that the server has ended and
# that its folder stays.
#
# Arguments: the folder, the signal that ends the server, its command.
folder=$1 signal=$2
shift 2
# Files that libfaketime leaves behind.
shared="/dev/shm/faketime_shm_$$ /dev/shm/sem.faketime_sem_$$"
exec 5<&0 < /dev/null
(
	# Ctrl-C in a terminal signals all its processes. The watcher must outlive the server.
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
