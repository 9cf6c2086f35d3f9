import java.nio.file.*;
import java.sql.*;
import java.util.Arrays;
import java.util.concurrent.ConcurrentMap;
import org.h2.mvstore.MVStore;
import org.mapdb.*;

/** Engines in Java: the first word of the settings is the engine. See ../python/engine.py. */
class Engines {
    static final int KEPT = 8;

    /** A store that is open: commit writes one transaction and waits for what it promises. */
    interface Store {
        void commit(int i) throws Exception;
        byte[] get(String key) throws Exception;
        void close() throws Exception;
    }

    static byte[] valueOf(int i) {
        byte[] value = new byte[i * 577 % 3000 + 1];
        Arrays.fill(value, (byte) ('a' + i % 26));
        return value;
    }

    /** H2 by JDBC; `sync` makes each transaction durable by CHECKPOINT SYNC. */
    static class H2 implements Store {
        final Connection base;
        final boolean sync;

        H2(String path, boolean sync) throws Exception {
            base = DriverManager.getConnection("jdbc:h2:" + path + ";DB_CLOSE_ON_EXIT=FALSE", "sa", "");
            this.sync = sync;
            base.createStatement().execute("create table if not exists t(k varchar primary key, v varbinary)");
            base.setAutoCommit(false);
        }

        void put(String key, byte[] value) throws Exception {
            PreparedStatement put = base.prepareStatement("merge into t values(?, ?)");
            put.setString(1, key);
            put.setBytes(2, value);
            put.execute();
        }

        public void commit(int i) throws Exception {
            put("last", String.valueOf(i).getBytes());
            put("k" + i, valueOf(i));
            base.createStatement().execute("delete from t where k = 'k" + (i - KEPT) + "'");
            base.commit();
            if (sync) base.createStatement().execute("checkpoint sync");
        }

        public byte[] get(String key) throws Exception {
            ResultSet row = base.createStatement().executeQuery("select v from t where k = '" + key + "'");
            return row.next() ? row.getBytes(1) : null;
        }

        public void close() throws Exception {
            base.close();
        }
    }

    /** H2's MVStore alone. */
    static class Mv implements Store {
        final MVStore store;
        final ConcurrentMap<String, byte[]> map;

        Mv(String path) {
            store = new MVStore.Builder().fileName(path).autoCommitDisabled().open();
            map = store.openMap("t");
        }

        public void commit(int i) {
            map.put("last", String.valueOf(i).getBytes());
            map.put("k" + i, valueOf(i));
            map.remove("k" + (i - KEPT));
            store.commit();
            store.sync();
        }

        public byte[] get(String key) {
            return map.get(key);
        }

        public void close() {
            store.close();
        }
    }

    /** MapDB with its write-ahead log. */
    static class Mapdb implements Store {
        final DB base;
        final ConcurrentMap<String, byte[]> map;

        Mapdb(String path) {
            base = DBMaker.fileDB(path).transactionEnable().fileLockDisable().make();
            map = base.hashMap("t", Serializer.STRING, Serializer.BYTE_ARRAY).createOrOpen();
        }

        public void commit(int i) {
            map.put("last", String.valueOf(i).getBytes());
            map.put("k" + i, valueOf(i));
            map.remove("k" + (i - KEPT));
            base.commit();
        }

        public byte[] get(String key) {
            return map.get(key);
        }

        public void close() {
            base.close();
        }
    }

    static Store open(String settings, String folder) throws Exception {
        String path = Path.of(folder).toAbsolutePath() + "/db";
        return switch (settings) {
            case "h2" -> new H2(path, false);
            case "h2 sync" -> new H2(path, true);
            case "mvstore" -> new Mv(path);
            default -> new Mapdb(path);
        };
    }

    static void fail(String text) {
        System.out.println(text);
        // Without a shutdown of the store.
        Runtime.getRuntime().halt(1);
    }

    static void verify(int lost, Store from) throws Exception {
        byte[] number = from.get("last");
        int last = number == null ? 0 : Integer.parseInt(new String(number));
        for (int i = 1; i < last + 4; i++) {
            byte[] expected = last - KEPT < i && i <= last ? valueOf(i) : null;
            if (!Arrays.equals(from.get("k" + i), expected))
                fail("a transaction is there in part: k" + i + " of " + last);
        }
        String path = System.getenv("STRANDLINE_STDOUT");
        String[] said = (path == null ? "0" : "0\n" + Files.readString(Path.of(path))).trim().split("\\s+");
        int acknowledged = Integer.parseInt(said[said.length - 1]);
        if (last + lost < acknowledged)
            fail("too many are lost: " + acknowledged + " was acknowledged, " + last + " is there");
        Runtime.getRuntime().halt(0);
    }

    public static void main(String[] words) {
        try {
            if (words[0].equals("--verify")) verify(Integer.parseInt(words[1]), open(words[2], words[3]));
            Store store = open(words[0], words[1]);
            for (int i = 1; i <= Integer.parseInt(words[2]); i++) {
                store.commit(i);
                System.out.println(i);
            }
            store.close();
        } catch (Throwable error) {
            fail(error.toString());
        }
    }
}
