// Engines in Go: the first word of the settings is the engine. See ../python/engine.py.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble"
	"github.com/dgraph-io/badger/v4"
	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"go.etcd.io/bbolt"
)

const kept = 8

func keyOf(i int) []byte { return fmt.Appendf(nil, "k%d", i) }

func valueOf(i int) []byte { return bytes.Repeat([]byte{byte('a' + i%26)}, i*577%3000+1) }

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// A store that is open: commit writes one transaction and waits until it is durable.
type store struct {
	commit func(i int) error
	get    func(key []byte) []byte
	close  func() error
}

type writer struct {
	put    func(key, value []byte) error
	remove func(key []byte) error
}

func write(i int, to writer) error {
	return errors.Join(
		to.put([]byte("last"), []byte(strconv.Itoa(i))), to.put(keyOf(i), valueOf(i)), to.remove(keyOf(i-kept)))
}

func openBolt(path string) store {
	db, err := bbolt.Open(path, 0o644, nil)
	must(err)
	name := []byte("t")
	commit := func(i int) error {
		return db.Update(func(txn *bbolt.Tx) error {
			bucket, err := txn.CreateBucketIfNotExists(name)
			must(err)
			return write(i, writer{bucket.Put, bucket.Delete})
		})
	}
	get := func(key []byte) (value []byte) {
		must(db.View(func(txn *bbolt.Tx) error {
			if bucket := txn.Bucket(name); bucket != nil {
				value = bytes.Clone(bucket.Get(key))
			}
			return nil
		}))
		return value
	}
	return store{commit, get, db.Close}
}

func openBadger(path string) store {
	options := badger.DefaultOptions(path).WithSyncWrites(true).WithLogger(nil).WithMetricsEnabled(false)
	options = options.WithMemTableSize(4 << 20).WithValueLogFileSize(4 << 20).WithValueThreshold(1024)
	db, err := badger.Open(options)
	must(err)
	commit := func(i int) error {
		return db.Update(func(txn *badger.Txn) error { return write(i, writer{txn.Set, txn.Delete}) })
	}
	get := func(key []byte) (value []byte) {
		must(db.View(func(txn *badger.Txn) error {
			item, err := txn.Get(key)
			if err == badger.ErrKeyNotFound {
				return nil
			}
			must(err)
			value, err = item.ValueCopy(nil)
			return err
		}))
		return value
	}
	return store{commit, get, db.Close}
}

func openPebble(path string) store {
	db, err := pebble.Open(path, &pebble.Options{Logger: silent{}})
	must(err)
	commit := func(i int) error {
		batch := db.NewBatch()
		put := func(key, value []byte) error { return batch.Set(key, value, nil) }
		must(write(i, writer{put, func(key []byte) error { return batch.Delete(key, nil) }}))
		return batch.Commit(pebble.Sync)
	}
	get := func(key []byte) []byte {
		value, closer, err := db.Get(key)
		if err == pebble.ErrNotFound {
			return nil
		}
		must(err)
		defer closer.Close()
		return bytes.Clone(value)
	}
	return store{commit, get, db.Close}
}

type silent struct{}

func (silent) Infof(string, ...any)                   {}
func (silent) Errorf(string, ...any)                  {}
func (silent) Fatalf(format string, arguments ...any) { must(fmt.Errorf(format, arguments...)) }

func openLevel(path string) store {
	db, err := leveldb.OpenFile(path, &opt.Options{WriteBuffer: 8192})
	must(err)
	commit := func(i int) error {
		batch := new(leveldb.Batch)
		put := func(key, value []byte) error { batch.Put(key, value); return nil }
		must(write(i, writer{put, func(key []byte) error { batch.Delete(key); return nil }}))
		return db.Write(batch, &opt.WriteOptions{Sync: true})
	}
	get := func(key []byte) []byte {
		value, err := db.Get(key, nil)
		if err == leveldb.ErrNotFound {
			return nil
		}
		must(err)
		return value
	}
	return store{commit, get, db.Close}
}

func open(settings, folder string) store {
	makers := map[string]func(string) store{
		"bbolt": openBolt, "badger": openBadger, "pebble": openPebble, "goleveldb": openLevel,
	}
	return makers[settings](folder + "/db")
}

func verify(lost int, from store) {
	last, _ := strconv.Atoi(string(from.get([]byte("last"))))
	for i := 1; i < last+4; i++ {
		var expected []byte
		if last-kept < i && i <= last {
			expected = valueOf(i)
		}
		if !bytes.Equal(from.get(keyOf(i)), expected) {
			must(fmt.Errorf("a transaction is there in part: k%d of %d", i, last))
		}
	}
	said := 0
	printed, _ := os.ReadFile(os.Getenv("STRANDLINE_STDOUT"))
	if lines := strings.Fields(string(printed)); len(lines) > 0 {
		said, _ = strconv.Atoi(lines[len(lines)-1])
	}
	if last+lost < said {
		must(fmt.Errorf("too many are lost: %d was acknowledged, %d is there", said, last))
	}
}

func main() {
	words := os.Args[1:]
	if words[0] == "--verify" {
		lost, err := strconv.Atoi(words[1])
		must(err)
		verify(lost, open(words[2], words[3]))
		return
	}
	count, err := strconv.Atoi(words[2])
	must(err)
	to := open(words[0], words[1])
	for i := 1; i <= count; i++ {
		must(to.commit(i))
		fmt.Println(i)
	}
	must(to.close())
}
