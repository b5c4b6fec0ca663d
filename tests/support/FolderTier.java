import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;

/**
 * The remote storage of tiered topics, in a folder. How it reads stands in the file "mode" there:
 * "works", "slow MS" (each read), "slow-once MS" (the first read from a place, as stores with a cache), "refuses".
 */
public class FolderTier implements RemoteStorageManager {
  private Path folder;
  private final Set<String> known = ConcurrentHashMap.newKeySet();

  @Override
  public void configure(Map<String, ?> settings) {
    folder = Path.of((String) settings.get("folder"));
  }

  @Override
  public Optional<RemoteLogSegmentMetadata.CustomMetadata> copyLogSegmentData(
      RemoteLogSegmentMetadata about, LogSegmentData data) throws RemoteStorageException {
    try {
      Path place = Files.createDirectories(of(about));
      Files.copy(data.logSegment(), place.resolve("SEGMENT"));
      Files.copy(data.offsetIndex(), place.resolve(IndexType.OFFSET.name()));
      Files.copy(data.timeIndex(), place.resolve(IndexType.TIMESTAMP.name()));
      Files.copy(data.producerSnapshotIndex(), place.resolve(IndexType.PRODUCER_SNAPSHOT.name()));
      if (data.transactionIndex().isPresent()) {
        Files.copy(data.transactionIndex().get(), place.resolve(IndexType.TRANSACTION.name()));
      }
      ByteBuffer epochs = data.leaderEpochIndex();
      byte[] bytes = new byte[epochs.remaining()];
      epochs.get(bytes);
      Files.write(place.resolve(IndexType.LEADER_EPOCH.name()), bytes);
      return Optional.empty();
    } catch (IOException error) {
      throw new RemoteStorageException(error);
    }
  }

  @Override
  public InputStream fetchLogSegment(RemoteLogSegmentMetadata about, int start) throws RemoteStorageException {
    return fetchLogSegment(about, start, Integer.MAX_VALUE);
  }

  @Override
  public InputStream fetchLogSegment(RemoteLogSegmentMetadata about, int start, int end)
      throws RemoteStorageException {
    try {
      dawdle(of(about) + "@" + start);
      FileChannel channel = FileChannel.open(of(about).resolve("SEGMENT"));
      return Channels.newInputStream(channel.position(start));
    } catch (IOException error) {
      throw new RemoteStorageException(error);
    }
  }

  @Override
  public InputStream fetchIndex(RemoteLogSegmentMetadata about, IndexType type) throws RemoteStorageException {
    Path index = of(about).resolve(type.name());
    if (!Files.exists(index)) {
      throw new RemoteResourceNotFoundException("there is no " + index);
    }
    try {
      return Files.newInputStream(index);
    } catch (IOException error) {
      throw new RemoteStorageException(error);
    }
  }

  @Override
  public void deleteLogSegmentData(RemoteLogSegmentMetadata about) throws RemoteStorageException {
    try (Stream<Path> all = Files.walk(of(about))) {
      for (Path path : all.sorted(Comparator.reverseOrder()).toList()) {
        Files.delete(path);
      }
    } catch (IOException error) {
      throw new RemoteStorageException(error);
    }
  }

  @Override
  public void close() {}

  private Path of(RemoteLogSegmentMetadata about) {
    return folder.resolve(about.remoteLogSegmentId().id().toString());
  }

  private void dawdle(String place) throws IOException, RemoteStorageException {
    String[] mode = Files.readString(folder.resolve("mode")).trim().split(" ");
    if (mode[0].equals("refuses")) {
      throw new RemoteStorageException("it refuses");
    }
    if (mode[0].equals("slow") || (mode[0].equals("slow-once") && known.add(place))) {
      try {
        Thread.sleep(Long.parseLong(mode[1]));
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }
}
