// Writes the bodies of this directory with DataContractSerializer. See README.md.
using System;
using System.Collections.Generic;
using System.IO;
using System.Runtime.Serialization;
using System.Text;
using System.Xml;

namespace Shop
{
    public enum State { Open, [EnumMember] Closed }

    [DataContract]
    public class Line
    {
        [DataMember(Order = 0)] public string Sku;
        [DataMember(Order = 1)] public int Quantity;
        [DataMember(Order = 2)] public decimal Price;
    }

    [DataContract]
    public class Order
    {
        [DataMember(Order = 0)] public int Id;
        [DataMember(Order = 1)] public long Number;
        [DataMember(Order = 2)] public double Weight;
        [DataMember(Order = 3)] public float Ratio;
        [DataMember(Order = 4)] public decimal Total;
        [DataMember(Order = 5)] public bool Paid;
        [DataMember(Order = 6)] public DateTime Placed;
        [DataMember(Order = 7)] public DateTime Due;
        [DataMember(Order = 8)] public TimeSpan Window;
        [DataMember(Order = 9)] public Guid Key;
        [DataMember(Order = 10)] public string Customer;
        [DataMember(Order = 11)] public char Grade;
        [DataMember(Order = 12)] public State State;
        [DataMember(Order = 13)] public byte[] Photo;
        [DataMember(Order = 14)] public ulong Large;
        [DataMember(Order = 15)] public Line First;
        [DataMember(Order = 16)] public List<Line> Lines;
        [DataMember(Order = 17)] public List<string> Tags;
        [DataMember(Order = 18)] public int[] Codes;
        [DataMember(Order = 19)] public Dictionary<string, int> Stock;
        [DataMember(Order = 20)] public string Note;
        [DataMember(Order = 21)] public int? Discount;
        [DataMember(Order = 22)] public int? Bonus;
        [DataMember(Order = 23)] public object Anything;
        [DataMember(Order = 24)] public Uri Link;
        [DataMember(Order = 25)] public DateTimeOffset Seen;
        [DataMember(Order = 26)] public List<string> Empty;
    }

    // A contract whose namespace and name are its own.
    [DataContract(Name = "shipment", Namespace = "urn:example:shipping")]
    public class Shipment
    {
        [DataMember(Name = "id")] public Guid Id;
        [DataMember(Name = "weights")] public double[] Weights;
        [DataMember(Name = "days")] public DateTime[] Days;
        [DataMember(Name = "flags")] public bool[] Flags;
    }

    // Two members with one object: with references the second is a mark.
    [DataContract(IsReference = true)]
    public class Person
    {
        [DataMember] public string Name;
        [DataMember] public Person Friend;
    }

    [DataContract]
    public class Pair
    {
        [DataMember] public Person Left;
        [DataMember] public Person Right;
    }

    // Numbers of each width, and the values that have records of their own.
    [DataContract]
    public class Numbers
    {
        [DataMember(Order = 0)] public int Zero;
        [DataMember(Order = 1)] public int One;
        [DataMember(Order = 2)] public int Minus;
        [DataMember(Order = 3)] public int Short;
        [DataMember(Order = 4)] public int Int;
        [DataMember(Order = 5)] public long Long;
        [DataMember(Order = 6)] public long Least;
        [DataMember(Order = 7)] public ulong Most;
        [DataMember(Order = 8)] public double Whole;
        [DataMember(Order = 9)] public double Third;
        [DataMember(Order = 10)] public double NotANumber;
        [DataMember(Order = 11)] public double Infinite;
        [DataMember(Order = 12)] public decimal Small;
        [DataMember(Order = 13)] public decimal Largest;
        [DataMember(Order = 14)] public string ZeroText;
        [DataMember(Order = 15)] public string OneText;
        [DataMember(Order = 16)] public byte Byte;
        [DataMember(Order = 17)] public sbyte SByte;
        [DataMember(Order = 18)] public uint UInt;
    }

    public static class Program
    {
        static string directory;

        public static int Main(string[] arguments)
        {
            directory = arguments[0];
            // A local time is written with the offset of this zone.
            Console.WriteLine("zone {0}", TimeZoneInfo.Local.Id);
            Strings();
            ByteArrays();
            Objects();
            Lists();
            Records();
            return 0;
        }

        static void Strings()
        {
            Both("string-hello", "Hello");
            Both("string-empty", "");
            Both("string-zero", "0");
            Both("string-one", "1");
            Both("string-unicode", "Gr\u00fc\u00dfe \u65e5\u672c \ud83d\ude00 <&>\"'\r\n\t");
            Both("string-json", "{\"id\":7}");
            Binary("string-84", typeof(string), new string('a', 84));
            Binary("string-300", typeof(string), new string('b', 300));
            Binary("string-30000", typeof(string), new string('c', 30000));
            Binary("string-70000", typeof(string), new string('d', 70000));
            Both("string-null", typeof(string), null);
        }

        static void ByteArrays()
        {
            foreach (int length in new[] { 0, 1, 2, 3, 4, 300, 70000 })
            {
                byte[] bytes = Bytes(length);
                if (length <= 300) { Both("bytes-" + length, bytes); } else { Binary("bytes-" + length, typeof(byte[]), bytes); }
            }
        }

        static byte[] Bytes(int length)
        {
            byte[] bytes = new byte[length];
            for (int at = 0; at < length; at++) { bytes[at] = (byte)(at * 7); }
            return bytes;
        }

        static void Objects()
        {
            Line nails = new Line { Sku = "nail", Quantity = 100, Price = 0.05m };
            Line saw = new Line { Sku = "s\u00e4ge", Quantity = 1, Price = 12.50m };
            Order order = new Order
            {
                Id = 7,
                Number = 5000000000,
                Weight = 1.1,
                Ratio = 0.5f,
                Total = 1234.5600m,
                Paid = true,
                Placed = new DateTime(2024, 2, 29, 12, 34, 56, 789, DateTimeKind.Utc),
                Due = new DateTime(2024, 3, 1, 0, 0, 0, DateTimeKind.Unspecified),
                Window = new TimeSpan(1, 2, 3, 4, 500),
                Key = new Guid("00112233-4455-6677-8899-aabbccddeeff"),
                Customer = "Ada \u00d8",
                Grade = 'A',
                State = State.Closed,
                Photo = Bytes(5),
                Large = ulong.MaxValue,
                First = nails,
                Lines = new List<Line> { nails, null, saw },
                Tags = new List<string> { "new", "", null, "1" },
                Codes = new[] { 1, 200, 70000, -1 },
                Stock = new Dictionary<string, int> { { "nail", 100 }, { "saw", 0 } },
                Note = null,
                Discount = null,
                Bonus = 300,
                Anything = 42,
                Link = new Uri("https://example.com/a?b=c&d"),
                Seen = new DateTimeOffset(2024, 2, 29, 13, 0, 0, TimeSpan.FromHours(1)),
                Empty = new List<string>(),
            };
            Both("order", order);
            Both("order-defaults", new Order());
            Both("order-null", typeof(Order), null);
            Both("numbers", new Numbers
            {
                Zero = 0, One = 1, Minus = -1, Short = 300, Int = 70000, Long = 5000000000, Least = long.MinValue,
                Most = ulong.MaxValue, Whole = 3, Third = 1.0 / 3, NotANumber = double.NaN,
                Infinite = double.NegativeInfinity, Small = -0.000001m, Largest = decimal.MaxValue, ZeroText = "0",
                OneText = "1", Byte = 255, SByte = -128, UInt = uint.MaxValue,
            });
            Both("shipment", new Shipment
            {
                Id = new Guid("00112233-4455-6677-8899-aabbccddeeff"),
                Weights = new[] { 1.5, 2, -0.25 },
                Days = new[] { new DateTime(2024, 2, 29, 0, 0, 0, DateTimeKind.Utc), new DateTime(1, 1, 1) },
                Flags = new[] { true, false, true },
            });
            Person ada = new Person { Name = "Ada" };
            Both("pair-references", new Pair { Left = ada, Right = ada });
            Both("int", 7);
            Both("date-utc", new DateTime(2024, 2, 29, 12, 34, 56, DateTimeKind.Utc));
            Both("date-local", new DateTime(2024, 2, 29, 12, 34, 56, DateTimeKind.Local));
            Both("guid", new Guid("00112233-4455-6677-8899-aabbccddeeff"));
            Both("double", 1.1);
            Both("decimal", 79228162514264337593543950335m);
        }

        static void Lists()
        {
            Both("strings", new[] { "a", "", null, "\u00fc" });
            Both("ints", new[] { 1, 2, 3 });
            Both("longs", new[] { 1L, 5000000000L });
            Both("guids", new[] { Guid.Empty, new Guid("00112233-4455-6677-8899-aabbccddeeff") });
            Both("decimals", new[] { 1.50m, -2m });
            Both("spans", new[] { TimeSpan.FromSeconds(90), TimeSpan.FromTicks(-1), TimeSpan.Zero });
            Both("no-ints", new int[0]);
            Both("lists", new List<List<int>> { new List<int> { 1 }, new List<int>(), new List<int> { 2, 3 } });
            Both("dictionary", new Dictionary<string, string> { { "a", "1" }, { "b", null } });
            Both("lines", new List<Line> { new Line { Sku = "nail", Quantity = 2, Price = 1m } });
        }

        // Records that the serializer does not choose, but other callers of the writer do.
        static void Records()
        {
            Write("records", null, writer =>
            {
                writer.WriteStartElement("", "Values", "http://schemas.datacontract.org/2004/07/Shop");
                writer.WriteComment("a comment");
                writer.WriteStartElement("Guid");
                writer.WriteValue(new Guid("00112233-4455-6677-8899-aabbccddeeff"));
                writer.WriteEndElement();
                writer.WriteStartElement("Span");
                writer.WriteValue(new TimeSpan(1, 2, 3, 4, 500));
                writer.WriteEndElement();
                writer.WriteStartElement("Id");
                writer.WriteValue(new UniqueId(new Guid("00112233-4455-6677-8899-aabbccddeeff")));
                writer.WriteEndElement();
                writer.WriteStartElement("List");
                writer.WriteValue(new object[] { 1, "two", true });
                writer.WriteEndElement();
                writer.WriteStartElement("long", "Prefixed", "urn:example:prefix");
                writer.WriteAttributeString("long", "attribute", "urn:example:prefix", "value");
                writer.WriteAttributeString("plain", "value");
                writer.WriteString("first, ");
                writer.WriteString("second");
                writer.WriteEndElement();
                writer.WriteStartElement("Spans");
                writer.WriteArray("b", "span", "urn:example:arrays", new[] { TimeSpan.FromSeconds(1), TimeSpan.Zero }, 0, 2);
                writer.WriteEndElement();
                writer.WriteStartElement("Guids");
                writer.WriteArray(null, "guid", "", new[] { Guid.Empty }, 0, 1);
                writer.WriteEndElement();
                writer.WriteEndElement();
            });
            // Names as numbers of a dictionary, which both sides would have to have.
            XmlDictionary dictionary = new XmlDictionary();
            XmlDictionaryString name = dictionary.Add("Values");
            XmlDictionaryString none = dictionary.Add("http://schemas.datacontract.org/2004/07/Shop");
            Write("dictionary-numbers", dictionary, writer =>
            {
                writer.WriteStartElement("", name, none);
                writer.WriteEndElement();
            });
        }

        static void Write(string name, IXmlDictionary dictionary, Action<XmlDictionaryWriter> write)
        {
            using (MemoryStream stream = new MemoryStream())
            {
                XmlDictionaryWriter writer = XmlDictionaryWriter.CreateBinaryWriter(stream, dictionary, null, false);
                write(writer);
                writer.Flush();
                File.WriteAllBytes(Path.Combine(directory, name + ".bin"), stream.ToArray());
            }
        }

        static void Both<T>(string name, T value) { Both(name, typeof(T), value); }

        static void Both(string name, Type type, object value)
        {
            Binary(name, type, value);
            Text(name, type, value);
        }

        static void Binary(string name, Type type, object value)
        {
            using (MemoryStream stream = new MemoryStream())
            {
                XmlDictionaryWriter writer = XmlDictionaryWriter.CreateBinaryWriter(stream, null, null, false);
                new DataContractSerializer(type).WriteObject(writer, value);
                writer.Flush();
                File.WriteAllBytes(Path.Combine(directory, name + ".bin"), stream.ToArray());
            }
        }

        static void Text(string name, Type type, object value)
        {
            using (MemoryStream stream = new MemoryStream())
            {
                new DataContractSerializer(type).WriteObject(stream, value);
                File.WriteAllBytes(Path.Combine(directory, name + ".xml"), stream.ToArray());
            }
        }
    }
}
