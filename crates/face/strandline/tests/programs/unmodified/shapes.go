// Shapes of public reports, each with its fixed twin: shapes SHAPE wrong|fixed, in the folder d.
// shapes lock wrong|fixed FOLDER is the recovery of `lock`.
package main

import (
	"fmt"
	"os"
	"strings"
)

func create(path, text string, durable bool) {
	written(path, os.O_TRUNC, text, durable)
}

// CURRENT names the version; the old one is removed when the new one is in place.
func manifest() {
	create("d/data-2", "version 2\n", true)
	create("d/CURRENT.tmp", "2\n", true)
	if fixed {
		synced("d")
	}
	must(os.Rename("d/CURRENT.tmp", "d/CURRENT"))
	if fixed {
		synced("d")
	}
	must(os.Remove("d/data-1"))
	fmt.Println("saved 2")
}

// The log is emptied when a checkpoint has its records.
func checkpoint() {
	log := opened("d/log", os.O_WRONLY|os.O_APPEND)
	for i := 1; i <= 4; i++ {
		put(log, fmt.Sprintln(i))
		must(log.Sync())
		fmt.Println("saved", i)
	}
	create("d/checkpoint.tmp", "4\n", fixed)
	must(os.Rename("d/checkpoint.tmp", "d/checkpoint"))
	if fixed {
		synced("d")
	}
	must(log.Truncate(0))
	must(log.Sync())
}

// The length at 0 says how many bytes from 4096 on are data.
func length() {
	file := opened("d/data", os.O_WRONLY)
	for i := 1; i <= 3; i++ {
		count := fmt.Sprintf("%08d", 500*i)
		if !fixed {
			putAt(file, count, 0)
		}
		putAt(file, strings.Repeat("x", 500), int64(4096+500*(i-1)))
		must(file.Sync())
		if fixed {
			putAt(file, count, 0)
			must(file.Sync())
		}
	}
}

// The second sync fails: its file is closed too early. A static
// program takes no error from a preloaded library.
func swallowed() {
	all := ""
	for i := 1; i <= 3; i++ {
		log := opened("d/log", os.O_WRONLY|os.O_APPEND)
		all += fmt.Sprintln(i)
		put(log, fmt.Sprintln(i))
		if i == 2 {
			must(log.Close())
		}
		if log.Sync() != nil && fixed {
			create("d/log.new", all, true)
			must(os.Rename("d/log.new", "d/log"))
			synced("d")
		}
		log.Close()
		fmt.Println("saved", i)
	}
}

// Each file of the folder is a segment, but for the lock; one that begins with a dot is not finished.
func lock() {
	create("d/LOCK", "pid\n", false)
	create("d/.2", "segment\n", true)
	must(os.Rename("d/.2", "d/2"))
	synced("d")
	fmt.Println("saved 2")
	must(os.Remove("d/LOCK"))
}

func recoverLock(folder string) {
	names, err := os.ReadDir(folder)
	must(err)
	for _, name := range names {
		if name.Name()[0] == '.' || (fixed && name.Name() == "LOCK") {
			continue
		}
		text, err := os.ReadFile(folder + "/" + name.Name())
		must(err)
		if string(text) != "segment\n" {
			fmt.Println(name.Name(), "is no segment")
			os.Exit(1)
		}
	}
}

func main() {
	fixed = os.Args[2] == "fixed"
	if len(os.Args) > 3 {
		recoverLock(os.Args[3])
		return
	}
	shapes := map[string]func(){
		"manifest": manifest, "checkpoint": checkpoint, "length": length, "swallowed": swallowed, "lock": lock,
	}
	shapes[os.Args[1]]()
}
