import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** A namenode and a datanode in one process, until standard input ends. */
public class MiniHdfs {
    public static void main(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        settings.set("hdfs.minidfs.basedir", arguments[0]);
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(settings).numDataNodes(1).build();
        cluster.waitActive();
        System.out.println("ready " + cluster.getURI());
        System.in.read();
        cluster.shutdown();
    }
}
